from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="collective-order-mismatch",
    title="the ranks call collectives in different order",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "Collectives are matched by their order in a group, not by what they are. Ranks that exchange two of "
        "them wait for each other, or mix their data."
    ),
    like=("rank0-only-collective", "rank-divergent-decision"),
    fix=Fix("Call collectives in one order on all ranks: iterate sorted keys, not sets; one thread per group."),
    variants={
        "groups": (
            "Call new_group on every rank of the job, also on those that are no members of the group, and "
            "in the same order everywhere."
        ),
        "crossed": (
            "Call the collectives of different groups in the same order on every rank, and give each call "
            "the group that all its ranks give it."
        ),
        "threads": (
            "Give each thread that calls collectives a process group of its own, made by `new_group` on every rank, or "
            "call them all in one thread: join the one that saves before the next collective."
        ),
    },
    confirm=(
        "Start with TORCH_DISTRIBUTED_DEBUG=DETAIL, or compare flight-recorder dumps: the same number is "
        "another operation."
    ),
    source=("torch documentation, flight recorder and TORCH_DISTRIBUTED_DEBUG"),
)
