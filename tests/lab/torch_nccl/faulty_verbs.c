/* The verbs of fake_cuda/verbs.c on a machine with a fault; $FAKE_RDMA_FAULT says which, of this process.
 *
 * port-down: no port is active. stuck: a queue pair never becomes ready to receive, for its call does not return. A word
 * of digits: that call fails with this errno (110: nobody answers for the address, 22: a GID that cannot be taken).
 * status N: what has been posted to be sent completes with this ibv_wc_status (12: nobody answers). event N: this asynchronous
 * event comes a second after a device was opened (10: the port's link is lost).
 * memlock: memory is pinned within RLIMIT_MEMLOCK, as the kernel does for who has no CAP_IPC_LOCK (ib_umem_get).
 */
#define ibv_modify_qp healthy_modify_qp
#define ibv_get_async_event healthy_get_async_event
#define ibv_open_device healthy_open_device
#define ibv_query_port healthy_query_port
#define ibv_reg_mr healthy_reg_mr
#define ibv_reg_mr_iova2 healthy_reg_mr_iova2
#define ibv_reg_dmabuf_mr healthy_reg_dmabuf_mr
#include "../fake_cuda/verbs.c"
#include <sys/resource.h>
#undef ibv_modify_qp
#undef ibv_get_async_event
#undef ibv_open_device
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova2
#undef ibv_reg_dmabuf_mr

enum { READY_TO_RECEIVE = 2, DOWN = 1, DISABLED = 3 };

static const char *fault(void) {
    const char *word = getenv("FAKE_RDMA_FAULT");
    return word ? word : "";
}
int ibv_modify_qp(struct qp *qp, int *state, int mask) {
    if (*state == READY_TO_RECEIVE && !strcmp(fault(), "stuck"))
        for (;;) pause();
    if (*state == READY_TO_RECEIVE && atoi(fault())) return errno = atoi(fault());
    return healthy_modify_qp(qp, state, mask);
}
int ibv_query_port(struct context *c, uint8_t port, struct port_facts *out) {
    int failed = healthy_query_port(c, port, out);
    if (!failed && !strcmp(fault(), "port-down")) out->state = DOWN, out->physical = DISABLED;
    return failed;
}
static int cannot_pin(size_t size) {
    static _Atomic size_t pinned;
    struct rlimit limit;
    if (strcmp(fault(), "memlock") || getrlimit(RLIMIT_MEMLOCK, &limit)) return 0;
    size_t pages = (size + 4095) / 4096 * 4096, after = pinned += pages;
    if (limit.rlim_cur == RLIM_INFINITY || after <= limit.rlim_cur) return 0;
    pinned -= pages;
    return errno = ENOMEM;
}
struct mr *ibv_reg_mr(struct pd *pd, void *place, size_t size, int access_) {
    return cannot_pin(size) ? NULL : healthy_reg_mr(pd, place, size, access_);
}
struct mr *ibv_reg_mr_iova2(struct pd *pd, void *place, size_t size, u64 iova, unsigned access_) {
    return cannot_pin(size) ? NULL : healthy_reg_mr_iova2(pd, place, size, iova, access_);
}
struct mr *ibv_reg_dmabuf_mr(struct pd *pd, u64 offset, size_t size, u64 iova, int file, int access_) {
    return cannot_pin(size) ? NULL : healthy_reg_dmabuf_mr(pd, offset, size, iova, file, access_);
}

/* ---- asynchronous events, and completions ---- */

enum { ACCESS = 3 }; /* of a queue pair: a remote key that is none */
struct event { void *of; int type; };
struct posted { u64 id; struct posted *next; };
struct completion { u64 id; int status, opcode; uint32_t vendor, bytes, immediate, pair, other; int flags; char rest[8]; };
static struct qp *_Atomic last_pair;
static struct { struct cq *of; u64 id; uint32_t pair; } waiting[64];
static int waiting_count;
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;

int ibv_get_async_event(struct context *c, struct event *out) {
    static _Thread_local int told;
    int type = 0;
    if (told || sscanf(fault(), "event %d", &type) != 1) return healthy_get_async_event(c, out);
    told = 1;
    do sleep(2);
    while (type == ACCESS && !last_pair);
    out->type = type;
    if (type == ACCESS) out->of = last_pair;
    else *(int *)&out->of = 1; /* the port's number */
    return 0;
}
static int post(struct qp *qp, struct posted *work, void **bad) {
    (void)bad;
    last_pair = qp;
    pthread_mutex_lock(&waiting_lock);
    for (; work->next; work = work->next);
    if (!strncmp(fault(), "status", 6) && waiting_count < 64) {
        waiting[waiting_count].of = qp->send, waiting[waiting_count].id = work->id;
        waiting[waiting_count++].pair = qp->number;
    }
    pthread_mutex_unlock(&waiting_lock);
    return 0;
}
static int poll_faulty(struct cq *cq, int most, struct completion *out) {
    int found = 0, status = 0;
    pthread_mutex_lock(&waiting_lock);
    for (int i = 0; i < waiting_count && found < most; i++)
        if (waiting[i].of == cq && sscanf(fault(), "status %d", &status) == 1) {
            out[found++] = (struct completion){.id = waiting[i].id, .status = status, .vendor = 129, .pair = waiting[i].pair};
            waiting[i--] = waiting[--waiting_count];
        }
    pthread_mutex_unlock(&waiting_lock);
    return found;
}
struct context *ibv_open_device(struct device *d) {
    struct context *c = healthy_open_device(d);
    if (c) c->ops[OP_POLL_CQ] = (void *)poll_faulty, c->ops[OP_POST_SEND] = (void *)post;
    return c;
}
