from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="rank0-only-collective",
    title="a collective is called on some ranks only",
    stages=("training", "end"),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "A barrier, a gathering state_dict or a logged metric stands under a condition such as rank == 0. "
        "Those that call it wait for those that never come."
    ),
    like=("rank-divergent-decision", "slow-rank-timeout"),
    fix=Fix("Call the collective on all ranks, and put only the writing or printing under the condition."),
    variants={
        "absent": "Look at the ranks that did not come: they ended, are busy, or do not call this operation.",
    },
    confirm=("Compare the stacks: some ranks are in the collective under a branch that the others did not take."),
    source=("torch documentation, collective functions; pytorch#88000"),
)
