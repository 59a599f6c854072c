from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="rpc-wait",
    title="a remote call does not return",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank waits for the answer of a remote call, or leaves only when all calls are answered, and the "
        "handler of one stands. With one thread for handlers, a call back to the caller waits for itself."
    ),
    like=("thread-wait",),
    fix=Fix(
        "Look at the handler that stands; use rpc_async with callbacks instead of calls that wait inside "
        "of handlers, more num_worker_threads, and an rpc_timeout."
    ),
    confirm="The stack of a thread that serves calls shows what the handler waits for.",
    source="torch documentation of torch.distributed.rpc",
)
