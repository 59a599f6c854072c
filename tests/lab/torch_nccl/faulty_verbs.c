/* The verbs of fake_cuda/verbs.c on a machine with a fault; $FAKE_RDMA_FAULT says which, of this process.
 *
 * port-down: no port is active. stuck: a queue pair never becomes ready to receive, for its call does not return. A word
 * of digits: that call fails with this errno (110: nobody answers for the address, 22: a GID that cannot be taken).
 */
#define ibv_modify_qp healthy_modify_qp
#define ibv_query_port healthy_query_port
#include "../fake_cuda/verbs.c"
#undef ibv_modify_qp
#undef ibv_query_port

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
