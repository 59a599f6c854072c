from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="gpu-program-fault",
    title="a kernel of the program failed on the GPU",
    stages=("first collective", "training"),
    kind="illegal-access",
    blame="program",
    restart="after a fix",
    judged={"assertion": Judged("assertion", "program", "after a fix")},
    hangs_by="gone",
    meaning=(
        "A kernel read or wrote where it may not, or an assertion in it failed. CUDA tells it at a later call, and "
        "the rank can use its GPU no more."
    ),
    like=("xid-gpu-lost",),
    fix=Fix(
        "Start that rank with CUDA_LAUNCH_BLOCKING=1 to see which call, or with compute-sanitizer; where several "
        "programs fail on one GPU, suspect the GPU.",
        (command("sudo dmesg --ctime | grep -i xid"),),
    ),
    variants={
        "assertion": (
            "An index or a label is out of range, as a rule: an embedding's index beyond its rows, a class beyond the "
            "last one, a negative label that is not ignore_index. Run the batch once on the CPU, or with "
            "CUDA_LAUNCH_BLOCKING=1: the exception then comes from the call that did it."
        ),
    },
    confirm="compute-sanitizer names the kernel; the same program fails on another GPU too.",
    foreseen_by=("gpu-xid-application",),
    source="CUDA's error texts (700, 710, 715, 716, 719, 702); NVIDIA Xid catalog",
)
