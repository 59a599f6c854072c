from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="fork-held-lock",
    title="a process was forked while a thread held a lock",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "fork copies memory with locks as they are, and not the threads that would release them. The child "
        "waits for such a lock for ever, and the rank waits for the child."
    ),
    like=(
        "child-process-wait",
        "dataloader-fork-deadlock",
    ),
    fix=Fix(
        "Start processes by spawn or forkserver (multiprocessing.set_start_method), or before any thread is started."
    ),
    confirm="The child stands in a lock, and none of its threads holds it.",
    source="fork(2); Python documentation of multiprocessing, Contexts and start methods",
)
