/* A fake libcuda.so.1: enough of the CUDA driver to enumerate devices, from a machine description (machine.h).
 *
 * It applies CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as NVIDIA documents them, written from the CUDA Programming
 * Guide (5.2.1.1), the MPS and MIG guides and reports of what drivers did, and independently of gpudoctor's own
 * predictor, so that the two can be compared. Where nothing is documented, this is a guess and says so:
 *   - UUIDs are compared with case, and blanks around them do not match;
 *   - ordinals and UUIDs mixed: the list ends at the first entry of the other kind (torch and nvitop do so);
 *   - an ordinal counts in the list that an unset variable gives, MIG devices included.
 */
#include "machine.h"

#include <ctype.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { MOST_DEVICES = 1024, MOST_VISIBLE = 64, WHOLE = -1 };

struct device { int gpu, mig; };

static struct device visible[MOST_DEVICES];
static int count = -1; /* before cuInit */

static const char *mig_text(int gpu, int mig, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "mig.%d.%s", mig, name);
    return of_gpu(gpu, key);
}

static const char *uuid_of(struct device device) {
    return device.mig == WHOLE ? of_gpu(device.gpu, "uuid") : mig_text(device.gpu, device.mig, "uuid");
}

static long long gpu_number(int gpu, const char *name) {
    const char *value = of_gpu(gpu, name);
    return value ? strtoll(value, NULL, 0) : 0;
}

static int same(struct device one, struct device other) { return one.gpu == other.gpu && one.mig == other.mig; }

/* ---- the order in which CUDA counts GPUs ---- */

static int earlier(int one, int other) {
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (!order || strcmp(order, "PCI_BUS_ID")) { /* FASTEST_FIRST is the default */
        long long difference = gpu_number(one, "speed") - gpu_number(other, "speed");
        if (difference) return difference > 0;
    }
    return strcasecmp(of_gpu(one, "pci"), of_gpu(other, "pci")) < 0;
}

static int in_order(int *list) {
    int length = 0;
    for (int gpu = 0; gpu < gpus() && length < MOST_DEVICES; gpu++) {
        int place = length++;
        for (; place > 0 && earlier(gpu, list[place - 1]); place--) list[place] = list[place - 1];
        list[place] = gpu;
    }
    return length;
}

/* ---- MIG: since driver 570 several devices a process, before it one ---- */

static int many_migs(void) { return driver_major() >= 570; }

static int any_mig(void) {
    for (int gpu = 0; gpu < gpus(); gpu++)
        for (int mig = 0; gpu_number(gpu, "mig_mode") && mig < gpu_number(gpu, "mig_slots"); mig++)
            if (mig_text(gpu, mig, "uuid")) return 1;
    return 0;
}

/* A compute instance is offered when it is the first of its GPU instance. */
static int offered(int gpu, int mig) {
    const char *own = mig_text(gpu, mig, "gi");
    for (int before = 0; before < mig; before++) {
        const char *other = mig_text(gpu, before, "gi");
        if (own && other && !strcmp(own, other)) return 0;
    }
    return own != NULL;
}

/* Every device that a program gets which does not set CUDA_VISIBLE_DEVICES. */
static int all_devices(struct device *list) {
    int order[MOST_DEVICES], length = 0;
    int only_mig = any_mig() && !many_migs(), cards = in_order(order);
    for (int place = 0; place < cards; place++) {
        int gpu = order[place];
        if (!gpu_number(gpu, "mig_mode")) {
            if (!only_mig) list[length++] = (struct device){gpu, WHOLE};
            continue;
        }
        for (int mig = 0; mig < gpu_number(gpu, "mig_slots") && length < MOST_DEVICES; mig++) {
            if (!mig_text(gpu, mig, "uuid") || !offered(gpu, mig)) continue;
            list[length++] = (struct device){gpu, mig};
            if (only_mig) return length;
        }
    }
    return length;
}

/* ---- one entry of CUDA_VISIBLE_DEVICES -> a device; 0 when it is invalid ---- */

static int by_ordinal(const char *entry, struct device *out) {
    struct device list[MOST_DEVICES];
    char *end;
    while (isspace((unsigned char)*entry)) entry++;
    const char *digits = *entry == '+' || *entry == '-' ? entry + 1 : entry;
    if (!isdigit((unsigned char)*digits)) return 0;
    unsigned long value = strtoul(digits, &end, 10); /* what follows the digits is ignored */
    if (*entry == '-' && value) return 0;
    if (value >= (unsigned long)all_devices(list)) return 0;
    *out = list[value];
    return 1;
}

/* A GPU by the beginning of its UUID, which must fit one GPU only. */
static int by_gpu_uuid(const char *entry, struct device *out) {
    int matches = 0;
    for (int gpu = 0; gpu < gpus(); gpu++)
        if (!strncmp(of_gpu(gpu, "uuid"), entry, strlen(entry)) && ++matches) *out = (struct device){gpu, WHOLE};
    return matches == 1 && !gpu_number(out->gpu, "mig_mode") && (many_migs() || !any_mig());
}

static int by_mig(const char *entry, struct device *out) {
    char tuple[160];
    for (int gpu = 0; gpu < gpus(); gpu++)
        for (int mig = 0; mig < gpu_number(gpu, "mig_slots"); mig++) {
            const char *uuid = mig_text(gpu, mig, "uuid");
            if (!uuid) continue;
            snprintf(tuple, sizeof tuple, "MIG-%s/%s/%s", of_gpu(gpu, "uuid"), mig_text(gpu, mig, "gi"),
                     mig_text(gpu, mig, "ci"));
            *out = (struct device){gpu, mig};
            if (!strcmp(tuple, entry)) return 1;
            if (driver_major() >= 470 && !strcmp(uuid, entry)) return 1;
        }
    return 0;
}

static int enumerate(struct device *list) {
    const char *variable = getenv("CUDA_VISIBLE_DEVICES");
    if (!variable) return all_devices(list);
    char *copy = strdup(variable), *rest = copy, *entry;
    int length = 0, migs = 0;
    int first_is_ordinal = strncmp(copy, "GPU-", 4) && strncmp(copy, "MIG-", 4);
    while ((entry = strsep(&rest, ",")) && length < MOST_VISIBLE) {
        struct device device = {0, WHOLE};
        int is_gpu = !strncmp(entry, "GPU-", 4), is_mig = !strncmp(entry, "MIG-", 4);
        if (first_is_ordinal == (is_gpu || is_mig)) break;
        if (!(is_gpu ? by_gpu_uuid : is_mig ? by_mig : by_ordinal)(entry, &device)) break;
        if (device.mig != WHOLE && migs++ && !many_migs()) break;
        for (int before = 0; before < length; before++)
            if (same(list[before], device)) { /* a device named twice: nothing is visible */
                free(copy);
                return 0;
            }
        list[length++] = device;
    }
    free(copy);
    return length;
}

/* ---- the functions ---- */

int cuInit(unsigned flags) {
    int order = ordered(__func__, NOBODY);
    if (order > 0) return order;
    if (flags) return INVALID_VALUE;
    if (count < 0) count = enumerate(visible);
    return count ? SUCCESS : NO_DEVICE;
}

int cuDriverGetVersion(int *out) {
    OBEY(NOBODY, out, sizeof *out);
    *out = (int)number("cuda", 13000);
    return SUCCESS;
}

int cuGetErrorName(int error, const char **out) {
    static const struct { int code; const char *name; } names[] = {
        {0, "CUDA_SUCCESS"},
        {1, "CUDA_ERROR_INVALID_VALUE"},
        {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {100, "CUDA_ERROR_NO_DEVICE"},
        {101, "CUDA_ERROR_INVALID_DEVICE"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
        {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };
    *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == error) *out = names[i].name;
    return *out ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetCount(int *out) {
    OBEY(NOBODY, out, sizeof *out);
    if (count <= 0) return NOT_INITIALIZED;
    *out = count;
    return SUCCESS;
}

int cuDeviceGet(int *out, int ordinal) {
    OBEY(ordinal, out, sizeof *out);
    if (ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
    *out = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *out, int size, int device) {
    OBEY(device, out, (size_t)size - 1);
    if (device < 0 || device >= count) return INVALID_DEVICE;
    struct device found = visible[device];
    const char *mig_name = found.mig == WHOLE ? NULL : mig_text(found.gpu, found.mig, "name");
    snprintf(out, (size_t)size, "%s", mig_name ? mig_name : of_gpu(found.gpu, "name"));
    return SUCCESS;
}

static int uuid_bytes(const char *text, unsigned char *out) {
    int digits = 0;
    text = strchr(text, '-'); /* after "GPU" or "MIG" */
    for (; text && *text && digits < 32; text++) {
        char digit[2] = {*text, 0};
        if (!isxdigit((unsigned char)*text)) continue;
        unsigned value = (unsigned)strtoul(digit, NULL, 16);
        out[digits / 2] = (unsigned char)(digits % 2 ? out[digits / 2] | value : value << 4);
        digits++;
    }
    return digits == 32 ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetUuid(unsigned char *out, int device) {
    OBEY(device, out, 16);
    return device < 0 || device >= count ? INVALID_DEVICE : uuid_bytes(of_gpu(visible[device].gpu, "uuid"), out);
}

int cuDeviceGetUuid_v2(unsigned char *out, int device) {
    OBEY(device, out, 16);
    return device < 0 || device >= count ? INVALID_DEVICE : uuid_bytes(uuid_of(visible[device]), out);
}

int cuDeviceGetPCIBusId(char *out, int size, int device) {
    unsigned domain = 0, bus = 0, slot = 0;
    OBEY(device, out, (size_t)size - 1);
    if (device < 0 || device >= count) return INVALID_DEVICE;
    sscanf(of_gpu(visible[device].gpu, "pci"), "%x:%x:%x", &domain, &bus, &slot);
    snprintf(out, (size_t)size, "%04x:%02x:%02x.0", domain, bus, slot);
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *out, int device) {
    OBEY(device, out, sizeof *out);
    if (device < 0 || device >= count) return INVALID_DEVICE;
    struct device found = visible[device];
    const char *memory = found.mig == WHOLE ? of_gpu(found.gpu, "memory") : mig_text(found.gpu, found.mig, "memory");
    *out = memory ? strtoull(memory, NULL, 0) : 0;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
    const char *name = attribute == 116 ? "gpu_direct_rdma" : attribute == 124 ? "dma_buf" : "";
    OBEY(device, out, sizeof *out);
    if (device < 0 || device >= count) return INVALID_DEVICE;
    const char *value = *name ? of_gpu(visible[device].gpu, name) : NULL;
    if (!value) return INVALID_VALUE; /* as a driver that came before the attribute */
    *out = (int)strtol(value, NULL, 0);
    return SUCCESS;
}
