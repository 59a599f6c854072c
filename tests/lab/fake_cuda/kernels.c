/* Kernels: each has its turn in its stream and does nothing. torch's fill with one value is done, for torch.ones. */

typedef struct { unsigned x, y, z; } dim3;
static struct { const void *function; const char *name; } *kernels;
static size_t kernel_count, kernel_space;
static __thread struct { dim3 grid, block; size_t shared; Any stream; } configuration;

void **__cudaRegisterFatBinary(void *image) {
    static void *handle[8];
    (void)image;
    take_over_nccl(); /* torch registers its kernels once its libraries are loaded */
    return handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterVar(void) { }
char __cudaInitModule(void **handle) { (void)handle; return 0; }
void __cudaRegisterFunction(void **handle, const void *function, char *device_function, const char *name) {
    (void)handle, (void)device_function;
    if (!strstr(name, "FillFunctor") && !debugging()) return;
    if (kernel_count == kernel_space) {
        kernel_space = kernel_space ? 2 * kernel_space : 1024;
        kernels = realloc(kernels, kernel_space * sizeof *kernels);
    }
    kernels[kernel_count].function = function, kernels[kernel_count++].name = name;
}
static const char *name_of(const void *function) {
    for (size_t i = 0; i < kernel_count; i++)
        if (kernels[i].function == function) return kernels[i].name;
    return "";
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, Any stream) {
    configuration.grid = grid, configuration.block = block;
    configuration.shared = shared, configuration.stream = stream;
    return 0;
}
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, Any *stream) {
    *grid = configuration.grid, *block = configuration.block;
    *shared = configuration.shared, *stream = configuration.stream;
    return SUCCESS;
}
int __cudaGetKernel(const void **out, const void *function) { *out = function; return SUCCESS; }

/* vectorized_elementwise_kernel<4, FillFunctor<T>, array<char *, 1>>(int n, FillFunctor<T> value, array data) */
struct fill { char *to; size_t n, width; char value[8]; };
static void do_fill(void *given) {
    struct fill *f = given;
    for (size_t i = 0; i < f->n; i++) memcpy(f->to + i * f->width, f->value, f->width);
    free(f);
}
static size_t width_of_fill(const char *kernel) {
    const char *type = strstr(kernel, "vectorized_elementwise_kernel") ? strstr(kernel, "FillFunctorI") : NULL;
    switch (type ? type[strlen("FillFunctorI")] : 0) {
    case 'b': case 'a': case 'h': return 1;
    case 's': return 2;
    case 'i': case 'f': return 4;
    case 'l': case 'd': return 8;
    default: return 0;
    }
}
static int launch(const void *function, void **arguments, Any stream) {
    const char *name = name_of(function);
    size_t width = width_of_fill(name);
    say("kernel", name);
    if (width && arguments) {
        struct fill *f = calloc(1, sizeof *f);
        *f = (struct fill){*(char **)arguments[2], *(unsigned *)arguments[0], width, ""};
        memcpy(f->value, arguments[1], width);
        if (f->n && on_device(f->to) && on_device(f->to + f->n * width - 1))
            return cudaLaunchHostFunc(stream, do_fill, f);
        free(f);
    }
    return cudaMemsetAsync(NULL, 0, 0, stream); /* its place in the queue */
}
int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, Any stream) {
    (void)grid, (void)block, (void)shared;
    return launch(function, arguments, stream);
}
int __cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, Any stream) {
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
int cudaLaunchKernelExC(void) { return SUCCESS; }
int cuLaunchKernel(void) { return SUCCESS; }
int cuLaunchKernelEx(void) { return SUCCESS; }
int cudaGetFuncBySymbol(Any *out, const void *symbol) { *out = (Any)symbol; return SUCCESS; }
int cudaFuncSetAttribute(const void *function, int which, int value) {
    (void)function, (void)which, (void)value;
    return SUCCESS;
}
struct kernel_facts { size_t shared, constant, local; int threads, registers, ptx, binary, cache, shared_opt_in, rest[20]; };
int cudaFuncGetAttributes(struct kernel_facts *out, const void *function) {
    (void)function;
    memset(out, 0, sizeof *out);
    out->threads = 1024, out->registers = 32, out->ptx = out->binary = 90, out->shared_opt_in = 48 << 10;
    return SUCCESS;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out) { *out = 2; return SUCCESS; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out) { *out = 2; return SUCCESS; }
int cudaGetSymbolAddress(void **out, const void *symbol) { (void)symbol; return cudaMalloc(out, 1 << 16); }
int cudaMemcpyToSymbol(void) { return SUCCESS; }
int cudaProfilerStart(void) { return SUCCESS; }
int cudaProfilerStop(void) { return SUCCESS; }
