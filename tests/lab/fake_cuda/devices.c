/* The devices of the runtime. Numbers of attributes are those of driver_types.h. */

static __thread int current;
static void (*wait_in_driver)(pthread_mutex_t *, pthread_cond_t *, int (*)(void *), void *);

/* The driver is loaded when it is first wanted, as the real runtime does: a library of that name is then in maps. */
static void load_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver) *(void **)&wait_in_driver = dlsym(driver, "fake_driver_wait");
    if (!wait_in_driver) fprintf(stderr, "fake cuda: no libcuda.so.1 of the lab\n"), abort();
}
static int ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_driver);
    return count >= 0 ? (count ? SUCCESS : NO_DEVICE) : cuInit(0);
}
#define READY do { int e_ = ready(); if (e_) return e_; } while (0)
#define KNOWN(device) do { READY; if ((device) < 0 || (device) >= count) return INVALID_DEVICE; } while (0)

int cudaGetDeviceCount(int *out) {
    *out = 0;
    READY;
    *out = count;
    return SUCCESS;
}
int cudaGetDevice(int *out) {
    *out = current;
    return ready();
}
int cudaSetDevice(int device) {
    KNOWN(device);
    current = device;
    return SUCCESS;
}
int cudaInitDevice(int device, unsigned flags, unsigned more) { (void)flags, (void)more; return cudaSetDevice(device); }
int cudaDriverGetVersion(int *out) { return cuDriverGetVersion(out); }
int cudaRuntimeGetVersion(int *out) {
    const char *set = getenv("FAKE_CUDA_RUNTIME");
    *out = set ? atoi(set) : 1000 * CUDA;
    return SUCCESS;
}

/* A fact of the description, else what such a card has. */
static int fact(int device, const char *name, int otherwise) {
    const char *value = of_gpu(visible[device].gpu, name);
    return value ? (int)strtoll(value, NULL, 0) : otherwise;
}
int cuDeviceGetAttribute(int *out, int attribute, int device) {
    KNOWN(device);
    int major = fact(device, "major_capability", 9);
    switch (attribute) {
    case 16: *out = fact(device, "multiprocessors", major >= 9 ? 132 : 108); break;
    case 75: *out = major; break;
    case 76: *out = fact(device, "minor_capability", 0); break;
    case 97: *out = fact(device, "shared_memory", major >= 9 ? 232448 : 166912); break; /* of a block that opts in */
    case 102: *out = fact(device, "virtual_memory", 1); break;
    case 103: *out = 1; break; /* handles as file descriptors */
    case 110: case 116: *out = fact(device, "gpu_direct_rdma", 0); break; /* of cuMem memory, of any */
    case 124: *out = fact(device, "dma_buf", 0); break;
    case 128: *out = fact(device, "fabric_handles", 0); break;
    case 132: *out = fact(device, "multicast", 0); break;
    case 134: *out = fact(device, "host_numa", 0); break;
    default: *out = 0;
    }
    return SUCCESS;
}
int cudaDeviceGetAttribute(int *out, int attribute, int device) { return cuDeviceGetAttribute(out, attribute, device); }

static int place_of(const char *address, unsigned out[3]) {
    return address && sscanf(address, "%x:%x:%x", &out[0], &out[1], &out[2]) == 3;
}
int cudaDeviceGetPCIBusId(char *out, int size, int device) {
    READY;
    return cuDeviceGetPCIBusId(out, size, device);
}
int cudaDeviceGetByPCIBusId(int *out, const char *address) {
    unsigned wanted[3], own[3];
    READY;
    if (!place_of(address, wanted)) return INVALID_VALUE;
    for (int device = 0; device < count; device++)
        if (place_of(of_gpu(visible[device].gpu, "pci"), own) && !memcmp(own, wanted, sizeof own)) {
            *out = device;
            return SUCCESS;
        }
    return INVALID_DEVICE;
}
int cudaDeviceCanAccessPeer(int *out, int one, int other) {
    char key[64];
    KNOWN(one);
    KNOWN(other);
    snprintf(key, sizeof key, "p2p.read.%d.%d", visible[one].gpu, visible[other].gpu);
    *out = number(key, number("p2p.read", 0)) == 0;
    return SUCCESS;
}
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { (void)peer, (void)flags; return SUCCESS; }
int cudaDeviceSetLimit(int limit, size_t value) { (void)limit, (void)value; return SUCCESS; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0, *greatest = -5; return SUCCESS; }
int cudaMemGetInfo(size_t *left, size_t *total) {
    READY;
    int error = cuDeviceTotalMem_v2(total, current);
    *left = *total - (600u << 20);
    return error;
}

/* cudaDeviceProp: CUDA 13 has left some fields of CUDA 12 out. What NCCL reads (major, minor) has one place in both. */
#if CUDA == 12
#define UNTIL_13(...) __VA_ARGS__;
#define TEXTURES 40
#else
#define UNTIL_13(...)
#define TEXTURES 39
#endif
struct properties {
    char name[256], uuid[16], luid[8];
    unsigned luid_mask;
    size_t memory, shared_of_block;
    int registers_of_block, warp;
    size_t pitch;
    int threads_of_block, most_threads[3], most_blocks[3];
    UNTIL_13(int clock)
    size_t constant;
    int major, minor;
    size_t texture_alignment, texture_pitch;
    UNTIL_13(int overlaps)
    int multiprocessors;
    UNTIL_13(int has_time_limit)
    int integrated, maps_host_memory;
    UNTIL_13(int compute_mode)
    int textures[TEXTURES];
    size_t surface_alignment;
    int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, engines, unified_addressing;
    UNTIL_13(int memory_clock)
    int bus_width, l2, l2_persisting, threads_of_processor, stream_priorities, l1_of_globals, l1_of_locals;
    size_t shared_of_processor;
    int registers_of_processor, managed, multi_gpu_board, board, native_atomics;
    UNTIL_13(int double_ratio)
    int pageable, concurrent_managed, preempts, registered_pointers, cooperative;
    UNTIL_13(int cooperative_devices)
    size_t shared_of_block_that_opts_in;
    int page_tables_of_host, direct_managed, blocks_of_processor, window;
    size_t shared_reserved;
    int rest[76];
};
int cudaGetDeviceProperties(struct properties *out, int device) {
    unsigned place[3] = {0, 0, 0};
    KNOWN(device);
    memset(out, 0, sizeof *out);
    cuDeviceGetName(out->name, sizeof out->name, device);
    cuDeviceGetUuid_v2((unsigned char *)out->uuid, device);
    cuDeviceTotalMem_v2(&out->memory, device);
    place_of(of_gpu(visible[device].gpu, "pci"), place);
    out->pci_domain = (int)place[0], out->pci_bus = (int)place[1], out->pci_device = (int)place[2];
    cuDeviceGetAttribute(&out->multiprocessors, 16, device);
    cuDeviceGetAttribute(&out->major, 75, device);
    cuDeviceGetAttribute(&out->minor, 76, device);
    int shared = 0;
    cuDeviceGetAttribute(&shared, 97, device);
    out->shared_of_block = 48 << 10, out->shared_of_block_that_opts_in = (size_t)shared;
    out->shared_of_processor = (size_t)shared + 1024;
    out->warp = 32, out->threads_of_block = 1024, out->threads_of_processor = 2048, out->blocks_of_processor = 32;
    out->most_threads[0] = out->most_threads[1] = 1024, out->most_threads[2] = 64;
    out->most_blocks[0] = 2147483647, out->most_blocks[1] = out->most_blocks[2] = 65535;
    out->registers_of_block = out->registers_of_processor = 65536, out->l2 = 50 << 20;
    out->ecc = out->unified_addressing = out->concurrent_kernels = out->cooperative = out->stream_priorities = 1;
    return SUCCESS;
}
int cudaGetDeviceProperties_v2(struct properties *out, int device) { return cudaGetDeviceProperties(out, device); }

/* ---- errors ---- */

static const struct { int code; const char *name, *text; } errors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {600, "cudaErrorNotReady", "device not ready"},
    {711, "cudaErrorTooManyPeers", "peer mapping resources exhausted"},
    {800, "cudaErrorNotPermitted", "operation not permitted"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {802, "cudaErrorSystemNotReady", "system not yet initialized"},
    {999, "cudaErrorUnknown", "unknown error"},
};
#define OF_ERROR(function, what)                                                            \
    const char *function(int error) {                                                       \
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)                         \
            if (errors[i].code == error) return errors[i].what;                             \
        return "unrecognized error code";                                                   \
    }
OF_ERROR(cudaGetErrorName, name)
OF_ERROR(cudaGetErrorString, text)
int cuGetErrorString(int error, const char **out) { *out = cudaGetErrorString(error); return SUCCESS; }
int cudaGetLastError(void) { return SUCCESS; }
int cudaPeekAtLastError(void) { return SUCCESS; }

/* ---- contexts: one a device, always there ---- */

int cuCtxCreate(Any *out) { *out = &count; return SUCCESS; }
int cuCtxDestroy(Any context) { (void)context; return SUCCESS; }
int cuCtxGetCurrent(Any *out) { *out = &count; return SUCCESS; }
int cuCtxSetCurrent(Any context) { (void)context; return SUCCESS; }
int cuCtxGetDevice(int *out) { *out = current; return SUCCESS; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    *flags = 0, *active = count > 0;
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(Any *out, int device) { (void)device; *out = &count; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return SUCCESS; }
int cuMemGetInfo_v2(size_t *left, size_t *total) { return cudaMemGetInfo(left, total); }
