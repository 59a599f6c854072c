/* The verbs of fake_cuda/verbs.c on a machine with a fault; $FAKE_RDMA_FAULT says which, of this process.
 *
 * port-down: no port is active. stuck: a queue pair never becomes ready to receive, for its call does not return. A word
 * of digits: that call fails with this errno (110: nobody answers for the address, 22: a GID that cannot be taken).
 * memlock: memory is pinned within RLIMIT_MEMLOCK, as the kernel does for who has no CAP_IPC_LOCK (ib_umem_get).
 */
#define ibv_modify_qp healthy_modify_qp
#define ibv_query_port healthy_query_port
#define ibv_reg_mr healthy_reg_mr
#define ibv_reg_mr_iova2 healthy_reg_mr_iova2
#define ibv_reg_dmabuf_mr healthy_reg_dmabuf_mr
#include "../fake_cuda/verbs.c"
#include <sys/resource.h>
#undef ibv_modify_qp
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
