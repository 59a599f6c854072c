from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="dataloader-fork-deadlock",
    title="a DataLoader worker was forked while a lock was held",
    stages=("training",),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    meaning=(
        "fork copies memory with locks as they are, and not the threads that would release them. The worker "
        "waits for such a lock for ever, and its rank waits for data."
    ),
    like=("storage-stall",),
    fix=Fix(
        "Start workers by spawn or forkserver (multiprocessing_context='forkserver'), or fork before threads and "
        "CUDA are used."
    ),
    variants={
        "timeout": (
            "Look at the stacks of the workers: a lock (then start them by spawn or forkserver), or storage that does "
            "not answer."
        ),
    },
    confirm=("With num_workers=0, or with spawn, the same job runs."),
    source=("fork(2), Python's multiprocessing documentation; torch DataLoader"),
)
