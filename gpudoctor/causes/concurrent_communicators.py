from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="concurrent-communicators",
    title="collectives of several groups are in each other's way",
    stages=("training",),
    kind="deadlock",
    restart="after a fix",
    hangs_by="together",
    meaning=(
        "Two communicators on one GPU whose kernels start in different order on different ranks can each hold "
        "what the other needs."
    ),
    like=("cuda-lazy-loading", "nccl-bug"),
    fix=Fix(
        "Use one group at a time in the same order on all ranks; NCCL 2.26 and later order them by "
        "NCCL_LAUNCH_ORDER_IMPLICIT=1.",
        (command("export NCCL_LAUNCH_ORDER_IMPLICIT=1"),),
    ),
    confirm=("With one stream, or a synchronize between the groups, the same job runs."),
    source=("NCCL documentation, using multiple communicators concurrently"),
)
