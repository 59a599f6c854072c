/* libcudart.so.13 for a machine without a GPU: what torch's CUDA build and NCCL call of the CUDA runtime and driver.
 *
 *   devices.c      which GPUs there are: those of the fake driver (../fake_nvidia/cuda.c)
 *   memory.c       device memory: a memfd for each allocation, so that IPC and cuMem handles work between processes
 *   streams.c      streams are queues, events are marks in them; what waits, waits in libcuda.so (driver.c)
 *   kernels.c      kernels do nothing, but that torch's fill with one value is done
 *   collectives.c  NCCL's calls on their way to the real library: done when all ranks have come to them alike
 *   seam.c         the runtime that is linked into libnccl.so.2 gets its functions from here
 *
 * NCCL and torch are unmodified. FAKE_CUDA_DEBUG=1 tells what they ask for that is not here.
 */
#define cuDeviceGetAttribute described_attribute
#include "cuda.c"
#undef cuDeviceGetAttribute

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

typedef unsigned long long u64;
typedef void *Any;
enum { OUT_OF_MEMORY = 2, NOT_READY = 600, NOT_SUPPORTED = 801 };

static int debugging(void) { return getenv("FAKE_CUDA_DEBUG") != NULL; }
static void say(const char *what, const char *detail) {
    if (debugging()) fprintf(stderr, "fake cuda: %s %s\n", what, detail);
}

static void *self;                               /* this library, for dlsym */
static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER; /* of all streams, events and communicators */
static void take_over_nccl(void);

#include "devices.c"
#include "memory.c"
#include "streams.c"
#include "kernels.c"
#include "seam.c"
#include "collectives.c"

__attribute__((constructor)) static void begin(void) {
    Dl_info own;
    if (dladdr((void *)begin, &own)) self = dlopen(own.dli_fname, RTLD_NOLOAD | RTLD_NOW);
}
