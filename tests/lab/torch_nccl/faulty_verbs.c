/* The verbs of fake_cuda/verbs.c on a machine with a fault; $FAKE_RDMA_FAULT says which, of this process.
 *
 * port-down: no port is active. stuck: a queue pair never becomes ready to receive, for its call does not return. A word
 * of digits: that call fails with this errno (110: nobody answers for the address, 22: a GID that cannot be taken).
 * memlock: no memory can be pinned.
 */
#define ibv_modify_qp healthy_modify_qp
#define ibv_query_port healthy_query_port
#define ibv_reg_mr healthy_reg_mr
#define ibv_reg_mr_iova2 healthy_reg_mr_iova2
#define ibv_reg_dmabuf_mr healthy_reg_dmabuf_mr
#include "../fake_cuda/verbs.c"
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
static int cannot_pin(void) { return !strcmp(fault(), "memlock") ? errno = ENOMEM : 0; }
struct mr *ibv_reg_mr(struct pd *pd, void *place, size_t size, int access_) {
    return cannot_pin() ? NULL : healthy_reg_mr(pd, place, size, access_);
}
struct mr *ibv_reg_mr_iova2(struct pd *pd, void *place, size_t size, u64 iova, unsigned access_) {
    return cannot_pin() ? NULL : healthy_reg_mr_iova2(pd, place, size, iova, access_);
}
struct mr *ibv_reg_dmabuf_mr(struct pd *pd, u64 offset, size_t size, u64 iova, int file, int access_) {
    return cannot_pin() ? NULL : healthy_reg_dmabuf_mr(pd, offset, size, iova, file, access_);
}
