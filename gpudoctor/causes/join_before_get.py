from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="join-before-get",
    title="a process is joined before its queue is read",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "A child that has put items into a multiprocessing.Queue ends only when all of them have been taken: "
        "its feeder thread waits for the pipe. Who joins the child first waits for ever."
    ),
    like=(
        "child-process-wait",
        "queue-wait",
    ),
    fix=Fix(
        "Read from the queue before join, or as many items as the child puts; or have the child call "
        "cancel_join_thread where its items may be lost."
    ),
    confirm="The child stands in its exit, in the thread that feeds the queue, and writes to a pipe.",
    source="Python documentation of multiprocessing, Programming guidelines: Joining processes that use queues",
)
