from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="store-host-exit",
    title="the process that serves the store has ended first",
    stages=("end",),
    kind="dead-rank",
    restart="not decided",
    hangs_by="elsewhere",
    meaning=(
        "Rank 0 or its launcher holds the TCPStore. When it ends before the others, their connections break, "
        "with warnings after a run that was in order, or an error where they still needed it."
    ),
    like=("rank-died",),
    fix=Fix(
        "Let all ranks pass a barrier before rank 0 ends. Where every exit status is 0 there is nothing to repair."
    ),
    confirm=("Look at the exit status of every rank: all 0 means that only the warnings are left."),
    source=("torch TCPStore.cpp, torchrun's exit barrier"),
)
