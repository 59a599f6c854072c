from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="queue-wait",
    title="a queue is waited for that nobody serves",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank puts into a queue that is full, or takes from one that is empty, and the thread or process at "
        "its other end has ended or stands. The others wait for the rank."
    ),
    like=(
        "thread-wait",
        "service-no-answer",
    ),
    fix=Fix(
        "Look at what has become of the other end (an exception in a thread is only printed), give get "
        "and put a timeout, and pass exceptions through the queue."
    ),
    variants={
        "full": (
            "The queue is full, for nobody takes from it: see why its reader has ended or stands, and use "
            "put(timeout=...) or a queue that drops."
        ),
        "process": (
            "The process at the other end has ended: read its exit code (Process.exitcode) and its error output."
        ),
    },
    confirm="No thread and no child of the rank stands at the other end of the queue.",
    source="Python documentation of queue and multiprocessing.Queue",
)
