from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="rank-divergent-decision",
    title="the ranks decide differently",
    stages=("training", "rendezvous"),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "Each rank decides by itself (early stop, save now, skip this step) from values that differ. They then "
        "go different ways and call different collectives."
    ),
    like=("uneven-inputs", "collective-order-mismatch"),
    fix=Fix("Decide on one rank and broadcast the decision, or all_reduce what it is made from."),
    variants={
        "left": (
            "Let every rank come to init_process_group: look for what ends the program before it on that rank, as a "
            "branch on the rank or the device count, sys.exit(), or an exception that is caught. What one rank alone "
            "has to do comes after it, with a barrier."
        ),
    },
    confirm=("Print the decision and its inputs on every rank."),
    source=("reports in several public threads"),
)
