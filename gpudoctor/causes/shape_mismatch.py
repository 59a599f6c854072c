from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="shape-mismatch",
    title="the ranks call one collective with different sizes or types",
    stages=("first collective", "training"),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "A collective needs the same size and type on all ranks. gloo ends with an error, and NCCL hangs or "
        "gives wrong sums without a word."
    ),
    like=("rank0-only-collective", "rank-divergent-decision"),
    fix=Fix("Pad to the largest size, or gather the sizes first; make models and parameters equal on all ranks."),
    variants={
        "model": (
            "Build the same model on all ranks: same arguments, same tokenizer size, no layers that depend on the rank."
        ),
    },
    confirm=("Print the shape and type before the collective on every rank, or compare flight-recorder dumps."),
    source=("NCCL documentation, collective operations; nccl#1417"),
)
