from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="p2p-order",
    title="sends and receives do not pair",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "Two ranks send to each other, or receive from each other, in an order in which neither comes to the "
        "call that the other waits for."
    ),
    fix=Fix("Put sends and receives of a step into one batch_isend_irecv, or order them by rank."),
    confirm=("Pair the last send and recv of neighbouring ranks: each waits for a call that comes later."),
    source=("torch and NCCL documentation of point-to-point communication; Megatron-LM#5240"),
)
