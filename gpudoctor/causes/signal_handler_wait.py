from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="signal-handler-wait",
    title="a signal handler waits",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "Python runs a signal handler in the main thread, between two instructions of whatever that does. A "
        "handler that waits, in a collective or for a lock, keeps its rank from going on; ranks without the "
        "signal do not come to it."
    ),
    like=(
        "rank-divergent-decision",
        "lock-held",
    ),
    fix=Fix(
        "Let the handler set a flag only, and act on it at the end of a step, after all ranks have agreed "
        "on it (all_reduce of the flag)."
    ),
    confirm="The stack shows the handler above a line that does not call it.",
    source="Python documentation of signal, Execution of Python signal handlers",
)
