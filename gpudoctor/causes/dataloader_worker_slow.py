from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="dataloader-worker-slow",
    title="a DataLoader worker is slow or waits",
    stages=("training",),
    kind="data",
    restart="not decided",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank waits for its DataLoader, whose worker is in the data set's own code: it sleeps between "
        "attempts, or waits for a server. The others wait for the rank."
    ),
    like=(
        "dataloader-fork-deadlock",
        "storage-stall",
    ),
    fix=Fix(
        "Give downloads in the data set a limit of time and attempts, read from local disks, and use more "
        "workers and prefetch_factor."
    ),
    confirm="The worker's stack stands at the same line of the data set in looks that lie a minute apart.",
    source="torch documentation of torch.utils.data",
)
