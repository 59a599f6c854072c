from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="signal-wait",
    title="a rank waits for a signal",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "The rank stands in signal.pause, sigwait or the like until a signal comes to this very process. "
        "Schedulers and launchers send theirs to some processes only."
    ),
    like=("stopped-rank",),
    fix=Fix(
        "Have the signal's news told to all ranks (broadcast a flag once a step) instead of waiting for "
        "it, or use signal.sigtimedwait."
    ),
    confirm="kill -USR1 with its PID, or the signal that it waits for, lets it go on.",
    source="signal(7), pause(2); Python documentation of signal",
)
