from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="gil-deadlock",
    title="a thread holds Python's lock and waits for one that needs it",
    stages=("training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "Native code keeps the GIL while it waits. Another thread of the same rank, which would end that wait, "
        "needs the GIL: neither goes on, and the rank never comes to the next collective."
    ),
    like=("rank-died", "slow-rank-timeout"),
    fix=Fix(
        "Release the GIL around waiting calls in the extension, or update the library; do not take locks in "
        "destructors."
    ),
    confirm=("In two looks the same thread owns the GIL in a native call, and others wait to take it."),
    source=("Python C API (Py_BEGIN_ALLOW_THREADS); horovod#3352; torch's heartbeat monitor"),
)
