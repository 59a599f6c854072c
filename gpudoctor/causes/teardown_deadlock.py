from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="teardown-deadlock",
    title="the job is done, and its ranks hang while they end",
    stages=("end",),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "Ranks leave in different order, or one destroys its process group while another is still in a "
        "collective. destroy_process_group or the interpreter's exit then waits."
    ),
    like=("store-host-exit",),
    fix=Fix(
        "Call destroy_process_group() on all ranks at the end of the successful path, after a barrier, and not in "
        "finally or in a destructor."
    ),
    confirm=("Results are written, and the stacks stand in destroy_process_group, atexit or the interpreter's exit."),
    source=("torch ProcessGroupNCCL.cpp (shutdown, heartbeat monitor)"),
)
