from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="thread-wait",
    title="a rank waits for one of its own threads",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "The main thread waits for a thread, an event, a condition or a future that another thread of the "
        "rank is to serve, and that has ended, stands, or waits for this one."
    ),
    like=(
        "lock-held",
        "queue-wait",
    ),
    fix=Fix(
        "Look at the stacks of the other threads, and at exceptions of threads that have ended (threading.excepthook); "
        "give waits a timeout, and do not wait for a task from within a task of the same executor."
    ),
    variants={
        "executor": (
            "A task waits for another task of the same executor, which has no thread left: use more workers, "
            "or call the function directly."
        ),
    },
    confirm="No other thread of the rank gets on between looks.",
    source="Python documentation of threading and concurrent.futures",
)
