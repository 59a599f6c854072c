from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="rank-dependent-graph",
    title="the model runs other layers on some ranks",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "A batch without one modality, expert or loss leaves out layers on one rank, so that its backward pass "
        "reduces other buckets than the others'."
    ),
    like=("unused-parameters", "shape-mismatch"),
    fix=Fix("Run every layer on all ranks, with a dummy input times 0 where there is none."),
    confirm=(
        "Print per rank which branches a step takes; TORCH_DISTRIBUTED_DEBUG=DETAIL shows the reduction that differs."
    ),
    source=("torch documentation, DistributedDataParallel"),
)
