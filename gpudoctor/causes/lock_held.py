from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="lock-held",
    title="a lock is waited for that nobody gives back",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "A thread of the rank waits for a lock that is held by a thread which itself waits: for this one, for "
        "a collective, or for nothing that comes. Neither gets on."
    ),
    like=(
        "gil-deadlock",
        "thread-wait",
    ),
    fix=Fix(
        "Take locks in one order in all threads, hold none while calling what may take one (callbacks, "
        "finalizers, handlers, collectives), and use RLock where one thread may take a lock twice."
    ),
    variants={
        "order": (
            "Two threads take two locks in two orders: take them in one order everywhere, or use one lock for both."
        ),
        "twice": (
            "The same thread holds the lock already: use threading.RLock, or call back after the lock was given back."
        ),
        "finalizer": (
            "A finalizer (__del__, weakref.finalize) takes a lock, and garbage collection runs it anywhere, "
            "also while the lock is held: let finalizers only append to a collections.deque, or use RLock."
        ),
        "handler": (
            "A signal handler runs between any two instructions of the main thread, also while that holds the "
            "lock: let the handler set a flag only."
        ),
        "processes": (
            "The lock is shared between processes, and who has it waits in a collective: give it back before "
            "the collective."
        ),
    },
    confirm="The stacks of all threads show who stands in the block of that lock.",
    source="Python documentation of threading.Lock and RLock",
)
