/* Device memory: shared mappings of memfds. Another process opens them through /proc/PID/fd or gets the descriptor. */

enum { SMALL_PAGE = 4096, LARGE_PAGE = 2 << 20 };
struct block { char *start; size_t size; int file, device; struct block *next; };
static struct block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t rounded(size_t size, size_t unit) { return size ? (size + unit - 1) / unit * unit : unit; }
static int new_file(size_t size) {
    int file = (int)syscall(SYS_memfd_create, "fake-cuda", 1u); /* closed on exec */
    if (file >= 0 && ftruncate(file, (off_t)size)) close(file), file = -1;
    return file;
}
static void keep(char *start, size_t size, int file, int device) {
    struct block *block = malloc(sizeof *block);
    pthread_mutex_lock(&blocks_lock);
    *block = (struct block){start, size, file, device, blocks};
    blocks = block;
    pthread_mutex_unlock(&blocks_lock);
}
/* The block that holds an address; its copy, for another thread may free it. */
static int block_at(const void *address, struct block *out) {
    const char *at = address;
    int found = 0;
    pthread_mutex_lock(&blocks_lock);
    for (struct block *block = blocks; block && !found; block = block->next)
        if (at >= block->start && at < block->start + block->size) *out = *block, found = 1;
    pthread_mutex_unlock(&blocks_lock);
    return found;
}
static int on_device(const void *address) {
    struct block block;
    return block_at(address, &block);
}
static int drop(const char *start) {
    struct block *gone = NULL;
    pthread_mutex_lock(&blocks_lock);
    for (struct block **link = &blocks; *link; link = &(*link)->next)
        if ((*link)->start == start) {
            gone = *link, *link = gone->next;
            break;
        }
    pthread_mutex_unlock(&blocks_lock);
    if (!gone) return SUCCESS;
    munmap(gone->start, gone->size);
    if (gone->file >= 0) close(gone->file);
    free(gone);
    return SUCCESS;
}
static char *mapped(int file, size_t size, void *at) {
    void *place = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), file, 0);
    return place == MAP_FAILED ? NULL : place;
}

int cudaMalloc(void **out, size_t size) {
    READY;
    size = rounded(size, SMALL_PAGE);
    int file = new_file(size);
    char *place = file < 0 ? NULL : mapped(file, size, NULL);
    if (!place) {
        if (file >= 0) close(file);
        return OUT_OF_MEMORY;
    }
    keep(place, size, file, current);
    *out = place;
    return SUCCESS;
}
int cudaFree(void *place) { return place ? drop(place) : ready(); }
int cudaMallocAsync(void **out, size_t size, Any stream) { (void)stream; return cudaMalloc(out, size); }
int cudaFreeAsync(void *place, Any stream) { (void)stream; return cudaFree(place); }

/* Memory pools: one, of no limits. */
int cudaMallocFromPoolAsync(void **out, size_t size, Any pool, Any stream) {
    (void)pool;
    return cudaMallocAsync(out, size, stream);
}
int cudaMemPoolCreate(Any *out, Any properties) { (void)properties; *out = &blocks; return SUCCESS; }
int cudaMemPoolDestroy(Any pool) { (void)pool; return SUCCESS; }
int cudaMemPoolSetAttribute(Any pool, int which, Any value) { (void)pool, (void)which, (void)value; return SUCCESS; }
int cudaMemPoolTrimTo(Any pool, size_t size) { (void)pool, (void)size; return SUCCESS; }
int cudaDeviceGetDefaultMemPool(Any *out, int device) { (void)device; *out = &blocks; return SUCCESS; }

/* ---- pinned memory of the host ---- */

static struct { char *start; size_t size; } pinned[4096];
static int pinned_count;
int cudaHostAlloc(void **out, size_t size, unsigned flags) {
    (void)flags;
    READY;
    size = rounded(size, SMALL_PAGE);
    if (posix_memalign(out, SMALL_PAGE, size)) return OUT_OF_MEMORY;
    memset(*out, 0, size);
    pthread_mutex_lock(&blocks_lock);
    if (pinned_count < 4096) pinned[pinned_count].start = *out, pinned[pinned_count++].size = size;
    pthread_mutex_unlock(&blocks_lock);
    return SUCCESS;
}
int cudaMallocHost(void **out, size_t size) { return cudaHostAlloc(out, size, 0); }
int cudaFreeHost(void *place) { (void)place; return SUCCESS; } /* kept: what is on a stream may still name it */
int cudaHostRegister(void *place, size_t size, unsigned flags) { (void)place, (void)size, (void)flags; return SUCCESS; }
int cudaHostUnregister(void *place) { (void)place; return SUCCESS; }
int cudaHostGetDevicePointer(void **out, void *place, unsigned flags) { (void)flags; *out = place; return SUCCESS; }
static int is_pinned(const void *address) {
    const char *at = address;
    for (int i = 0; i < pinned_count; i++)
        if (at >= pinned[i].start && at < pinned[i].start + pinned[i].size) return 1;
    return 0;
}

/* ---- what an address is ---- */

enum { HOST_MEMORY = 1, DEVICE_MEMORY = 2 };
struct pointer { int type, device; void *on_device, *on_host; };
int cudaPointerGetAttributes(struct pointer *out, const void *address) {
    struct block block;
    void *at = (void *)address;
    if (block_at(address, &block)) *out = (struct pointer){DEVICE_MEMORY, block.device, at, NULL};
    else *out = (struct pointer){is_pinned(address) ? HOST_MEMORY : 0, current, at, at};
    return SUCCESS;
}
int cuPointerGetAttribute(void *out, int attribute, Any address) {
    struct block block = {.device = current};
    int found = block_at(address, &block);
    switch (attribute) {
    case 2: *(int *)out = found ? DEVICE_MEMORY : HOST_MEMORY; break;
    case 9: *(int *)out = block.device; break;
    case 10: *(int *)out = found; break; /* may be shared by cudaIpc */
    default: *(int *)out = 0;
    }
    return SUCCESS;
}
int cuMemGetAddressRange(Any *start, size_t *size, Any address) {
    struct block block;
    if (!block_at(address, &block)) return INVALID_VALUE;
    if (start) *start = block.start;
    if (size) *size = block.size;
    return SUCCESS;
}
int cuMemGetAddressRange_v2(Any *start, size_t *size, Any address) { return cuMemGetAddressRange(start, size, address); }
int cuMemGetHandleForAddressRange(int *out, Any address, size_t size, int type, u64 flags) { /* a DMA-BUF */
    struct block block;
    (void)size, (void)type, (void)flags;
    if (!block_at(address, &block)) return INVALID_VALUE;
    *out = dup(block.file);
    return SUCCESS;
}

/* ---- cudaIpc: 64 bytes that another process makes a mapping of ---- */

struct ipc { int pid, file; size_t size, offset; char rest[40]; };
int cudaIpcGetMemHandle(struct ipc *out, void *address) {
    struct block block;
    if (!block_at(address, &block)) return INVALID_VALUE;
    *out = (struct ipc){getpid(), block.file, block.size, (size_t)((char *)address - block.start), ""};
    return SUCCESS;
}
int cudaIpcOpenMemHandle(void **out, struct ipc from, unsigned flags) {
    char path[64];
    (void)flags;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", from.pid, from.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    char *place = file < 0 ? NULL : mapped(file, from.size, NULL);
    if (!place) return INVALID_VALUE;
    keep(place, from.size, file, current);
    *out = place + from.offset;
    return SUCCESS;
}
int cudaIpcCloseMemHandle(void *address) {
    struct block block;
    return block_at(address, &block) ? drop(block.start) : SUCCESS;
}

/* ---- cuMem: reserve addresses, make memory, map the one to the other ---- */

struct handle { int file, references; size_t size; int properties[8]; };
static struct handle *new_handle(int file, size_t size, int device) {
    struct handle *handle = calloc(1, sizeof *handle);
    *handle = (struct handle){file, 1, size, {1, 1, 1, device}}; /* pinned, as a descriptor, on a device, which */
    return handle;
}
int cuMemAddressReserve(Any *out, size_t size, size_t alignment, Any wish, u64 flags) {
    (void)wish, (void)flags;
    if (alignment < LARGE_PAGE) alignment = LARGE_PAGE;
    void *place = mmap(NULL, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return OUT_OF_MEMORY;
    *out = (Any)rounded((uintptr_t)place, alignment);
    return SUCCESS;
}
int cuMemAddressFree(Any place, size_t size) { munmap(place, size); return SUCCESS; }
int cuMemGetAllocationGranularity(size_t *out, Any properties, int option) {
    (void)properties, (void)option;
    *out = LARGE_PAGE;
    return SUCCESS;
}
int cuMulticastGetGranularity(size_t *out, const void *properties, int option) {
    (void)properties, (void)option;
    *out = LARGE_PAGE;
    return SUCCESS;
}
int cuMemCreate(struct handle **out, size_t size, const void *properties, u64 flags) {
    (void)flags;
    int file = new_file(size);
    if (file < 0) return OUT_OF_MEMORY;
    *out = new_handle(file, size, current);
    memcpy((*out)->properties, properties, sizeof (*out)->properties);
    return SUCCESS;
}
int cuMemRelease(struct handle *handle) { /* kept: NCCL gives back one that it has retained twice */
    if (handle->references && --handle->references == 0) close(handle->file);
    return SUCCESS;
}
int cuMemMap(Any place, size_t size, size_t offset, struct handle *handle, u64 flags) {
    (void)offset, (void)flags;
    if (!mapped(handle->file, size, place)) return INVALID_VALUE;
    keep(place, size, dup(handle->file), current);
    return SUCCESS;
}
int cuMemUnmap(Any place, size_t size) {
    drop(place);
    mmap(place, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return SUCCESS;
}
int cuMemSetAccess(Any place, size_t size, Any access, size_t n) {
    (void)place, (void)size, (void)access, (void)n;
    return SUCCESS;
}
enum { AS_DESCRIPTOR = 1 };
int cuMemExportToShareableHandle(int *out, struct handle *handle, int type, u64 flags) {
    (void)flags;
    if (type != AS_DESCRIPTOR) return NOT_SUPPORTED;
    *out = dup(handle->file);
    return SUCCESS;
}
int cuMemImportFromShareableHandle(struct handle **out, Any descriptor, int type) {
    struct stat facts;
    int file = type == AS_DESCRIPTOR ? dup((int)(intptr_t)descriptor) : -1;
    if (type != AS_DESCRIPTOR) return NOT_SUPPORTED;
    if (file < 0 || fstat(file, &facts)) return INVALID_VALUE;
    *out = new_handle(file, (size_t)facts.st_size, 0);
    return SUCCESS;
}
int cuMemRetainAllocationHandle(struct handle **out, void *address) {
    struct block block;
    if (!block_at(address, &block)) return INVALID_VALUE;
    *out = new_handle(dup(block.file), block.size, block.device);
    return SUCCESS;
}
int cuMemGetAllocationPropertiesFromHandle(void *out, struct handle *handle) {
    memcpy(out, handle->properties, sizeof handle->properties);
    return SUCCESS;
}
