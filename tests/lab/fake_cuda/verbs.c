/* libibverbs.so.1 without a driver: its devices are those of /sys/class/infiniband, as the lab has mounted it.
 *
 * Listing, opening and asking work as on a machine with these files: a device opens when /sys/class/infiniband_verbs has
 * an entry of it whose file in /dev/infiniband can be opened. Queue pairs "connect" and carry nothing. Structures are
 * those of infiniband/verbs.h. $FAKE_RDMA_NO_DMABUF: no memory can be registered as a DMA-BUF.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/class/infiniband"
#define VERBS "/sys/class/infiniband_verbs"
enum { MOST = 128, LINE = 256, OPS = 32 };
typedef uint64_t u64;

struct device { void *ops[2]; int node_type, transport; char name[64], verbs[64], verbs_path[256], path[256]; };
struct context { struct device *device; void *ops[OPS]; int file, events, vectors; pthread_mutex_t lock; void *compat; };
enum { OP_POLL_CQ = 11, OP_POST_SEND = 25, OP_POST_RECEIVE = 26, BEFORE = 1024 }; /* and room for verbs_context's more */

static int first_line(char out[LINE], const char *format, const char *one, const char *other) {
    char path[512];
    snprintf(path, sizeof path, format, one, other);
    FILE *file = fopen(path, "r");
    out[0] = 0;
    if (!file) return 0;
    if (!fgets(out, LINE, file)) out[0] = 0;
    fclose(file);
    out[strcspn(out, "\n")] = 0;
    return 1;
}
static int of_device(const struct device *d, const char *file, char out[LINE]) {
    return first_line(out, DEVICES "/%s/%s", d->name, file);
}

/* ---- which there are ---- */

/* The entry of infiniband_verbs that belongs to a device; "" when there is none. */
static void find_verbs(struct device *d) {
    DIR *folder = opendir(VERBS);
    char owner[LINE];
    for (struct dirent *each; folder && (each = readdir(folder));)
        if (first_line(owner, VERBS "/%s/%s", each->d_name, "ibdev") && !strcmp(owner, d->name))
            snprintf(d->verbs, sizeof d->verbs, "%.63s", each->d_name);
    if (folder) closedir(folder);
}
static int by_verbs(const void *one, const void *other) {
    const struct device *a = *(struct device *const *)one, *b = *(struct device *const *)other;
    return strverscmp(a->verbs, b->verbs);
}
struct device **ibv_get_device_list(int *count) {
    struct device **list = calloc(MOST + 1, sizeof *list);
    DIR *folder = opendir(DEVICES);
    int n = 0;
    for (struct dirent *each; folder && n < MOST && (each = readdir(folder));) {
        char type[LINE];
        if (each->d_name[0] == '.') continue;
        struct device *d = calloc(1, sizeof *d);
        snprintf(d->name, sizeof d->name, "%.63s", each->d_name);
        snprintf(d->path, sizeof d->path, DEVICES "/%.63s", d->name);
        find_verbs(d);
        snprintf(d->verbs_path, sizeof d->verbs_path, VERBS "/%.63s", d->verbs);
        d->node_type = of_device(d, "node_type", type) ? atoi(type) : 1;
        if (d->verbs[0]) list[n++] = d;
        else free(d);
    }
    if (folder) closedir(folder);
    qsort(list, (size_t)n, sizeof *list, by_verbs);
    if (count) *count = n;
    return list;
}
void ibv_free_device_list(struct device **list) { free(list); }
const char *ibv_get_device_name(struct device *d) { return d->name; }

static int nothing_came(void) { return 0; }
struct context *ibv_open_device(struct device *d) {
    char path[128];
    int ends[2];
    snprintf(path, sizeof path, "/dev/infiniband/%s", d->verbs);
    if (access(path, R_OK | W_OK) || pipe(ends)) return NULL;
    struct context *c = (void *)((char *)calloc(1, BEFORE + sizeof *c) + BEFORE);
    c->device = d, c->file = -1, c->events = ends[0], c->vectors = 1;
    c->ops[OP_POLL_CQ] = c->ops[OP_POST_SEND] = c->ops[OP_POST_RECEIVE] = (void *)nothing_came;
    return c;
}
int ibv_close_device(struct context *c) { (void)c; return 0; }
int ibv_get_async_event(struct context *c, void *event) { /* none ever comes */
    char byte;
    (void)event;
    return read(c->events, &byte, 1) == 1 ? 0 : -1;
}
void ibv_ack_async_event(void *event) { (void)event; }
const char *ibv_event_type_str(int event) { /* rdma-core's words for those that the lab has */
    return event == 3 ? "local access violation work queue error" : event == 8 ? "local catastrophic error"
        : event == 9 ? "port active" : event == 10 ? "port error" : event == 18 ? "GID table change" : "unknown";
}

/* ---- what they are ---- */

struct device_facts {
    char firmware[64];
    u64 guid, image_guid, largest, page_sizes;
    uint32_t vendor, part, hardware;
    int qp, qp_wr, flags, sge, sge_read, cq, cqe, mr, pd, reads, more[19];
    uint16_t pkeys;
    uint8_t delay, ports;
};
static u64 guid_of(const struct device *d, const char *file) {
    char text[LINE];
    unsigned part[4];
    u64 guid = 0;
    if (!of_device(d, file, text)) return 0;
    if (sscanf(text, "%x:%x:%x:%x", &part[0], &part[1], &part[2], &part[3]) != 4) return 0;
    for (int i = 0; i < 4; i++) guid = guid << 16 | part[i];
    return guid;
}
int ibv_query_device(struct context *c, struct device_facts *out) {
    char text[LINE], file[64];
    memset(out, 0, sizeof *out);
    if (of_device(c->device, "fw_ver", text)) snprintf(out->firmware, sizeof out->firmware, "%.63s", text);
    out->guid = guid_of(c->device, "node_guid"), out->image_guid = guid_of(c->device, "sys_image_guid");
    out->vendor = 0x2c9, out->part = 4129, out->qp = 1 << 17, out->qp_wr = 1 << 15, out->sge = 30, out->cq = 1 << 20;
    out->cqe = 1 << 22, out->mr = 1 << 24, out->pd = 1 << 20, out->reads = 16;
    do snprintf(file, sizeof file, "ports/%d/state", ++out->ports);
    while (of_device(c->device, file, text));
    out->ports--;
    return 0;
}

struct port_facts {
    int state, largest_mtu, mtu, gids;
    uint32_t flags, message, bad_pkey, bad_qkey;
    uint16_t pkeys, lid, manager_lid;
    uint8_t lmc, lanes_of, level, timeout, init, width, speed, physical, layer, flags2;
    uint16_t flags3;
};
static uint8_t code_of_speed(const char *word) {
    static const char *const words[] = {"SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) return (uint8_t)(1u << i);
    return 128;
}
static uint8_t code_of_lanes(int lanes) { return lanes == 1 ? 1 : lanes == 2 ? 16 : lanes == 8 ? 4 : lanes == 12 ? 8 : 2; }
int ibv_query_port(struct context *c, uint8_t port, struct port_facts *out) {
    char file[64], text[LINE], word[16] = "";
    double gbps = 0;
    int lanes = 4;
    memset(out, 0, sizeof *out);
#define HAS(name) (snprintf(file, sizeof file, "ports/%d/" name, port), of_device(c->device, file, text))
    if (!HAS("state")) return errno = EINVAL;
    out->state = atoi(text);
    out->physical = HAS("phys_state") ? (uint8_t)atoi(text) : 0;
    out->lid = HAS("lid") ? (uint16_t)strtol(text, NULL, 0) : 0;
    out->manager_lid = HAS("sm_lid") ? (uint16_t)strtol(text, NULL, 0) : 0;
    if (HAS("link_layer")) out->layer = !strcmp(text, "InfiniBand") ? 1 : !strcmp(text, "Ethernet") ? 2 : 0;
    if (HAS("rate")) sscanf(text, "%lf Gb/sec (%dX %15[A-Z0-9])", &gbps, &lanes, word);
    out->speed = code_of_speed(word), out->width = code_of_lanes(lanes);
    out->largest_mtu = out->mtu = 5, out->pkeys = 128;
    do snprintf(file, sizeof file, "ports/%d/gids/%d", port, out->gids++);
    while (out->gids <= 256 && of_device(c->device, file, text));
    out->gids--;
    return 0;
}
int ibv_query_gid(struct context *c, uint8_t port, int index, uint8_t *out) {
    char file[64], text[LINE], *at = text;
    snprintf(file, sizeof file, "ports/%d/gids/%d", port, index);
    if (!of_device(c->device, file, text)) return -1;
    for (int word = 0; word < 8; word++, at += *at == ':') {
        unsigned long value = strtoul(at, &at, 16);
        *out++ = (uint8_t)(value >> 8), *out++ = (uint8_t)value;
    }
    return 0;
}
int ibv_query_pkey(struct context *c, uint8_t port, int index, uint16_t *out) {
    (void)c, (void)port;
    *out = index ? 0 : 0xffff;
    return 0;
}

/* ---- what NCCL makes of them ---- */

struct pd { struct context *context; uint32_t handle; };
struct mr { struct context *context; struct pd *pd; void *place; size_t size; uint32_t handle, lkey, rkey; };
struct cq { struct context *context; void *channel, *own; uint32_t handle; int entries; char rest[256]; };
struct qp { struct context *context; void *own; struct pd *pd; void *send, *receive, *srq; uint32_t handle, number; int state, type; char rest[256]; };

struct pd *ibv_alloc_pd(struct context *c) {
    struct pd *pd = calloc(1, sizeof *pd);
    pd->context = c;
    return pd;
}
int ibv_dealloc_pd(struct pd *pd) { free(pd); return 0; }
struct mr *ibv_reg_mr(struct pd *pd, void *place, size_t size, int access_) {
    struct mr *mr = calloc(1, sizeof *mr);
    (void)access_;
    *mr = (struct mr){pd->context, pd, place, size, 1, 2, 3};
    return mr;
}
struct mr *ibv_reg_mr_iova2(struct pd *pd, void *place, size_t size, u64 iova, unsigned access_) {
    (void)iova;
    return ibv_reg_mr(pd, place, size, (int)access_);
}
struct mr *ibv_reg_dmabuf_mr(struct pd *pd, u64 offset, size_t size, u64 iova, int file, int access_) {
    (void)offset, (void)iova;
    errno = getenv("FAKE_RDMA_NO_DMABUF") ? EOPNOTSUPP : file < 0 ? EBADF : 0; /* NCCL tries with a file of -1 */
    return errno ? NULL : ibv_reg_mr(pd, NULL, size, access_);
}
int ibv_dereg_mr(struct mr *mr) { free(mr); return 0; }
struct cq *ibv_create_cq(struct context *c, int entries, void *own, void *channel, int vector) {
    struct cq *cq = calloc(1, sizeof *cq);
    (void)vector;
    cq->context = c, cq->own = own, cq->channel = channel, cq->entries = entries;
    return cq;
}
int ibv_destroy_cq(struct cq *cq) { free(cq); return 0; }
struct qp *ibv_create_qp(struct pd *pd, void **wish) { /* its own, send queue, receive queue, ... */
    static uint32_t number = 100;
    struct qp *qp = calloc(1, sizeof *qp);
    qp->context = pd->context, qp->own = wish[0], qp->pd = pd, qp->send = wish[1], qp->receive = wish[2], qp->number = number++, qp->type = 2;
    return qp;
}
int ibv_modify_qp(struct qp *qp, int *state, int mask) { (void)mask; qp->state = *state; return 0; }
int ibv_query_qp(void) { return 0; }
int ibv_destroy_qp(struct qp *qp) { free(qp); return 0; }
int ibv_fork_init(void) { return 0; }
