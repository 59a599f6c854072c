/* A fake libnvidia-ml.so.1: what gpudoctor and torch call of NVML, answered from a machine description (machine.h).
 *
 * Signatures and structures are those of nvml.h. Every other symbol that nvidia-ml-py knows is a weak stub that says
 * NOT_SUPPORTED, in a file that tests/lab/nvidia.py generates. nvidia-ml-py never passes NULL where nvml.h forbids it.
 */
#include "machine.h"

#include <strings.h>

typedef void *Device;
typedef unsigned long long u64;

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       VERSION_MISMATCH = 25 };

/* A handle is the GPU's number + 1, and above 16 bits the MIG device's slot + 1. */
static int gpu_of(Device device) { return (int)((size_t)device & 0xffff) - 1; }
static int mig_of(Device device) { return (int)((size_t)device >> 16) - 1; }

static const char *of(Device device, const char *name) {
    char key[128];
    if (mig_of(device) < 0) return of_gpu(gpu_of(device), name);
    snprintf(key, sizeof key, "mig.%d.%s", mig_of(device), name);
    return of_gpu(gpu_of(device), key);
}

static int number_of(Device device, const char *name, u64 *out) {
    const char *value = of(device, name);
    if (!value) return NOT_SUPPORTED;
    *out = strtoull(value, NULL, 0);
    return SUCCESS;
}

static int text_into(const char *value, char *out, unsigned size) {
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

#define TEXT(function, name)                                                            \
    int function(Device device, char *out, unsigned size) {                             \
        OBEY(gpu_of(device), out, size);                                                \
        return text_into(of(device, name), out, size);                                  \
    }
#define NUMBER_AS(type, function, name)                                                 \
    int function(Device device, type *out) {                                            \
        u64 value = 0;                                                                  \
        OBEY(gpu_of(device), out, sizeof *out);                                         \
        int error = number_of(device, name, &value);                                    \
        if (!error) *out = (type)value;                                                 \
        return error;                                                                   \
    }
#define NUMBER(function, name) NUMBER_AS(unsigned, function, name)
#define PAIR(function, first, second)                                                   \
    int function(Device device, unsigned *one, unsigned *two) {                         \
        u64 a = 0, b = 0;                                                               \
        OBEY(gpu_of(device), one, sizeof *one);                                         \
        int error = number_of(device, first, &a) || number_of(device, second, &b);      \
        if (error) return NOT_SUPPORTED;                                                \
        *one = (unsigned)a, *two = (unsigned)b;                                         \
        return SUCCESS;                                                                 \
    }
/* One of several numbers, chosen by an argument. */
#define CHOICE(function, ...)                                                           \
    int function(Device device, unsigned which, unsigned *out) {                        \
        static const char *const names[] = {__VA_ARGS__};                               \
        u64 value = 0;                                                                  \
        OBEY(gpu_of(device), out, sizeof *out);                                         \
        if (which >= sizeof names / sizeof *names) return INVALID_ARGUMENT;             \
        int error = number_of(device, names[which], &value);                            \
        if (!error) *out = (unsigned)value;                                             \
        return error;                                                                   \
    }

/* ---- the driver ---- */

static int init(const char *function) {
    int order = ordered(function, NOBODY);
    if (!order) order = ordered("nvmlInit", NOBODY);
    return order == LIE ? 0 : order;
}

int nvmlInit(void) { return init(__func__); }
int nvmlInit_v2(void) { return init(__func__); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return init(__func__); }
int nvmlShutdown(void) { return init(__func__); }
const char *nvmlErrorString(int error) { (void)error; return "an error of the fake driver"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    OBEY(NOBODY, out, size);
    return text_into(look("driver"), out, size);
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    OBEY(NOBODY, out, size);
    return text_into(look("nvml"), out, size);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    OBEY(NOBODY, out, sizeof *out);
    *out = (int)number("cuda", 13000);
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *out) {
    OBEY(NOBODY, out, sizeof *out);
    *out = (int)number("cuda", 13000);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    OBEY(NOBODY, out, sizeof *out);
    *out = (unsigned)gpus();
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
    int order = ordered(__func__, (int)index);
    if (order > 0) return order;
    if ((int)index >= gpus()) return INVALID_ARGUMENT;
    *out = (Device)(size_t)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    for (int gpu = 0; gpu < gpus(); gpu++) {
        const char *own = of_gpu(gpu, "uuid");
        if (own && !strcmp(own, uuid)) return nvmlDeviceGetHandleByIndex_v2((unsigned)gpu, out);
    }
    return NOT_FOUND;
}

static int same_address(const char *one, const char *other) { /* of four or eight digits of domain */
    unsigned a[3], b[3];
    return one && sscanf(one, "%x:%x:%x", &a[0], &a[1], &a[2]) == 3 && sscanf(other, "%x:%x:%x", &b[0], &b[1], &b[2]) == 3 &&
           !memcmp(a, b, sizeof a);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Device *out) {
    for (int gpu = 0; gpu < gpus(); gpu++)
        if (same_address(of_gpu(gpu, "pci"), address)) return nvmlDeviceGetHandleByIndex_v2((unsigned)gpu, out);
    return NOT_FOUND;
}

/* NCCL asks by the first names. */
int nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }
int nvmlDeviceGetHandleByIndex(unsigned index, Device *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }
int nvmlDeviceGetHandleByPciBusId(const char *address, Device *out) {
    return nvmlDeviceGetHandleByPciBusId_v2(address, out);
}
int nvmlDeviceGetIndex(Device device, unsigned *out) {
    *out = (unsigned)gpu_of(device);
    return SUCCESS;
}

/* ---- a GPU: who it is ---- */

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
PAIR(nvmlDeviceGetCudaComputeCapability, "major_capability", "minor_capability")

int nvmlDeviceGetGspFirmwareVersion(Device device, char *out) {
    OBEY(gpu_of(device), out, 63);
    return text_into(of(device, "gsp"), out, 64);
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

static int pci_into(const char *address, struct pci *out) {
    if (!address) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    if (sscanf(address, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return INVALID_ARGUMENT;
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff);
    return text_into(address, out->bus_id, sizeof out->bus_id);
}

int nvmlDeviceGetPciInfo_v3(Device device, struct pci *out) {
    OBEY(gpu_of(device), out, sizeof *out);
    return pci_into(of(device, "pci"), out);
}

int nvmlDeviceGetCpuAffinity(Device device, unsigned words, u64 *out) {
    OBEY(gpu_of(device), out, words * sizeof *out);
    const char *list = of(device, "cpus"); /* "0-55" */
    unsigned first = 0, last = 0;
    if (!list) return NOT_SUPPORTED;
    if (sscanf(list, "%u-%u", &first, &last) != 2) return INVALID_ARGUMENT;
    memset(out, 0, words * sizeof *out);
    for (unsigned cpu = first; cpu <= last && cpu / 64 < words; cpu++) out[cpu / 64] |= 1ULL << cpu % 64;
    return SUCCESS;
}

/* ---- a GPU: how it is ---- */

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(Device device, struct memory *out) {
    u64 total = 0, used = 0, reserved = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    if (number_of(device, "memory", &total) || number_of(device, "memory_used", &used)) return NOT_SUPPORTED;
    number_of(device, "memory_reserved", &reserved);
    *out = (struct memory){total, total - used - reserved, used + reserved};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Device device, struct memory_v2 *out) {
    u64 total = 0, used = 0, reserved = 0;
    unsigned version = out->version;
    OBEY(gpu_of(device), out, sizeof *out);
    if (version != 0x02000028) return VERSION_MISMATCH;
    if (number_of(device, "memory", &total) || number_of(device, "memory_used", &used)) return NOT_SUPPORTED;
    number_of(device, "memory_reserved", &reserved);
    *out = (struct memory_v2){version, total, reserved, total - used - reserved, used};
    return SUCCESS;
}

struct rates { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(Device device, struct rates *out) {
    u64 gpu = 0, memory = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    if (number_of(device, "busy", &gpu) || number_of(device, "memory_busy", &memory)) return NOT_SUPPORTED;
    *out = (struct rates){(unsigned)gpu, (unsigned)memory};
    return SUCCESS;
}

CHOICE(nvmlDeviceGetTemperature, "temperature")
CHOICE(nvmlDeviceGetTemperatureThreshold, "shutdown", "slowdown", "memory_temperature_max")
CHOICE(nvmlDeviceGetClockInfo, "graphics_clock", "sm_clock", "memory_clock")
CHOICE(nvmlDeviceGetMaxClockInfo, "graphics_clock_max", "sm_clock_max", "memory_clock_max")
NUMBER(nvmlDeviceGetPowerUsage, "milliwatts")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "milliwatts_limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "milliwatts_default")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")
NUMBER(nvmlDeviceGetFanSpeed, "fan")
NUMBER_AS(u64, nvmlDeviceGetCurrentClocksEventReasons, "clock_events")
NUMBER_AS(u64, nvmlDeviceGetCurrentClocksThrottleReasons, "clock_events")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetDisplayActive, "display")

struct temperature { unsigned version; unsigned sensor; int celsius; };
int nvmlDeviceGetTemperatureV(Device device, struct temperature *out) {
    u64 value = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    int error = number_of(device, "temperature", &value);
    if (!error) out->celsius = (int)value;
    return error;
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    int error;
    union { double d; unsigned ui; u64 ull; } value;
};

static int link_number(Device device, unsigned link, const char *name, u64 *out);

static int field_of(Device device, const struct field *field, u64 *out) {
    switch (field->id) {
    case 82: return number_of(device, "memory_temperature", out);
    case 165: return link_number(device, field->scope, "active", out); /* the state of an NVLink, as NCCL reads it */
    case 230: /* a driver does not know the fields that came after it */
        return driver_major() < 570 ? INVALID_ARGUMENT : number_of(device, "recovery_action", out);
    default: return INVALID_ARGUMENT;
    }
}
int nvmlDeviceGetFieldValues(Device device, int count, struct field *fields) {
    u64 value = 0;
    OBEY(gpu_of(device), fields, (size_t)count * sizeof *fields);
    for (int i = 0; i < count; i++) {
        fields[i].error = field_of(device, &fields[i], &value);
        fields[i].type = 1; /* unsigned int */
        fields[i].value.ui = (unsigned)value;
    }
    return SUCCESS;
}

/* ---- a GPU: its memory errors ---- */

PAIR(nvmlDeviceGetEccMode, "ecc", "ecc_pending")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending")

int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, u64 *out) {
    static const char *const names[2][2] = {{"ecc_corrected", "ecc_corrected_ever"},
                                            {"ecc_uncorrected", "ecc_uncorrected_ever"}};
    OBEY(gpu_of(device), out, sizeof *out);
    return type > 1 || counter > 1 ? INVALID_ARGUMENT : number_of(device, names[type][counter], out);
}

struct sram { unsigned version; u64 counts[11]; unsigned exceeded; };
int nvmlDeviceGetSramEccErrorStatus(Device device, struct sram *out) {
    u64 value = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    if (out->version != 0x1000068) return VERSION_MISMATCH;
    int error = number_of(device, "sram_exceeded", &value);
    out->exceeded = (unsigned)value;
    return error;
}

int nvmlDeviceGetRemappedRows(Device device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    OBEY(gpu_of(device), corrected, sizeof *corrected);
    const char *rows = of(device, "remapped_rows"); /* "0 0 0 0" */
    if (!rows) return NOT_SUPPORTED;
    return sscanf(rows, "%u %u %u %u", corrected, uncorrected, pending, failed) == 4 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetRetiredPages(Device device, unsigned cause, unsigned *count, u64 *addresses) {
    u64 pages = 0;
    int order = ordered(__func__, gpu_of(device));
    if (order == LIE) *count = 1000; /* more would have nvidia-ml-py allocate what the machine does not have */
    if (order) return order == LIE ? SUCCESS : order;
    if (number_of(device, cause ? "pages_double_bit" : "pages_single_bit", &pages)) return NOT_SUPPORTED;
    unsigned room = *count;
    *count = (unsigned)pages;
    if (room < pages) return INSUFFICIENT_SIZE;
    for (u64 i = 0; addresses && i < pages; i++) addresses[i] = 4096 * i;
    return SUCCESS;
}

int nvmlDeviceValidateInforom(Device device) {
    u64 valid = 0;
    int order = ordered(__func__, gpu_of(device));
    if (order > 0) return order;
    int error = number_of(device, "inforom", &valid);
    return error ? error : valid ? SUCCESS : 14;
}

struct licences { int supported; unsigned count; struct { unsigned code, state; char info[128], product[128];
                  unsigned enabled; struct { unsigned year; unsigned short rest[5]; unsigned char status; } until; } of[3]; };

int nvmlDeviceGetGridLicensableFeatures_v4(Device device, struct licences *out) {
    u64 licensed = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    if (number_of(device, "vgpu_licensed", &licensed)) return SUCCESS;
    out->supported = 1;
    out->count = 1;
    out->of[0].state = (unsigned)licensed;
    return SUCCESS;
}

/* ---- MIG ---- */

PAIR(nvmlDeviceGetMigMode, "mig_mode", "mig_pending")
NUMBER(nvmlDeviceGetGpuInstanceId, "gi")
NUMBER(nvmlDeviceGetComputeInstanceId, "ci")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_slots")

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *out) {
    char key[64];
    int order = ordered(__func__, gpu_of(device));
    if (order > 0) return order;
    snprintf(key, sizeof key, "mig.%u.uuid", index);
    if (!of(device, key)) return NOT_FOUND;
    *out = (Device)((size_t)device | (size_t)(index + 1) << 16);
    return SUCCESS;
}

/* ---- links and peers ---- */

static int link_number(Device device, unsigned link, const char *name, u64 *out) {
    char key[96];
    u64 links = 0;
    if (number_of(device, "nvlinks", &links)) return NOT_SUPPORTED;
    if (link >= links) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "nvlink.%u.%s", link, name);
    if (!number_of(device, key, out)) return SUCCESS;
    snprintf(key, sizeof key, "nvlink.%s", name);
    return number_of(device, key, out);
}

int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *out) {
    u64 value = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    int error = link_number(device, link, "active", &value);
    if (!error) *out = (unsigned)value;
    return error;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned *out) {
    u64 value = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    int error = link_number(device, link, "remote", &value);
    if (!error) *out = (unsigned)value;
    return error;
}

int nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter, u64 *out) {
    static const char *const names[] = {"replay", "recovery", "crc"};
    OBEY(gpu_of(device), out, sizeof *out);
    return counter > 2 ? INVALID_ARGUMENT : link_number(device, link, names[counter], out);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, struct pci *out) {
    char key[64];
    OBEY(gpu_of(device), out, sizeof *out);
    snprintf(key, sizeof key, "nvlink.%u.remote_pci", link);
    const char *own = of(device, key);
    return pci_into(own ? own : of(device, "nvlink.remote_pci"), out);
}

int nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link, struct pci *out) {
    return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, out);
}

int nvmlDeviceGetNvLinkCapability(Device device, unsigned link, unsigned capability, unsigned *out) {
    u64 active = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    int error = link_number(device, link, "active", &active);
    if (!error) *out = capability == 0; /* peers over it */
    return error;
}

int nvmlDeviceGetP2PStatus(Device first, Device second, unsigned capability, unsigned *out) {
    char key[64];
    const char *name = capability == 2 ? "p2p.nvlink" : capability < 2 ? "p2p.read" : "p2p.other"; /* writing as reading */
    OBEY(gpu_of(first), out, sizeof *out);
    snprintf(key, sizeof key, "%s.%d.%d", name, gpu_of(first), gpu_of(second));
    long long status = number(key, number(name, -1));
    if (status < 0) return NOT_SUPPORTED;
    *out = (unsigned)status;
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(Device first, Device second, unsigned *out) {
    char key[64];
    OBEY(gpu_of(first), out, sizeof *out);
    snprintf(key, sizeof key, "level.%d.%d", gpu_of(first), gpu_of(second));
    long long level = number(key, number("level", -1));
    if (level < 0) return NOT_SUPPORTED;
    *out = (unsigned)level;
    return SUCCESS;
}

struct fabric { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; };
struct fabric_v2 { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state;
                   unsigned health; };

int nvmlDeviceGetGpuFabricInfo(Device device, struct fabric *out) {
    u64 state = 0, status = 0;
    OBEY(gpu_of(device), out, sizeof *out);
    if (number_of(device, "fabric_state", &state)) return NOT_SUPPORTED;
    number_of(device, "fabric_status", &status);
    out->state = (unsigned char)state;
    out->status = (int)status;
    return SUCCESS;
}

int nvmlDeviceGetGpuFabricInfoV(Device device, struct fabric_v2 *out) {
    u64 state = 0, status = 0, health = 0;
    unsigned newest = driver_major() < 570 ? 2 : 3;
    OBEY(gpu_of(device), out, sizeof *out);
    if (out->version >> 24 > newest) return VERSION_MISMATCH;
    if (number_of(device, "fabric_state", &state)) return NOT_SUPPORTED;
    number_of(device, "fabric_status", &status);
    number_of(device, "fabric_health", &health);
    out->state = (unsigned char)state;
    out->status = (int)status;
    out->health = (unsigned)health;
    return SUCCESS;
}

/* ---- processes: "process.0=PID BYTES", "graphics.0=PID BYTES"; bytes -1 where NVML cannot tell ---- */

struct process { unsigned pid; u64 memory; unsigned gi, ci; };

static int processes(Device device, const char *kind, unsigned *count, struct process *out) {
    unsigned room = *count, found = 0;
    char key[64];
    if (!of(device, "memory")) return NOT_SUPPORTED;
    for (;; found++) {
        unsigned pid = 0;
        long long memory = 0;
        snprintf(key, sizeof key, "%s.%u", kind, found);
        const char *value = of(device, key);
        if (!value || sscanf(value, "%u %lld", &pid, &memory) != 2) break;
        if (out && found < room) out[found] = (struct process){pid, (u64)memory, ~0u, ~0u};
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function, kind)                                                       \
    int function(Device device, unsigned *count, struct process *out) {                 \
        OBEY(gpu_of(device), count, 0);                                                 \
        return processes(device, kind, count, out);                                     \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "process")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "process")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
