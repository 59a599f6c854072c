from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="object-collective",
    title="a collective carries very large Python objects",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    hangs_by="disagreement",
    meaning=(
        "all_gather_object and its kind pickle on the CPU, pad to the largest object and copy through the "
        "device. Huge objects take minutes, and memory on every rank."
    ),
    like=("slow-rank-timeout",),
    fix=Fix("Gather tensors instead of objects, gather on a gloo group, or make the objects smaller."),
    confirm=("In a flight recorder a gather of one Long is followed by one of many million bytes."),
    source=("torch distributed_c10d.py (all_gather_object)"),
)
