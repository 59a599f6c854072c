from gpudoctor.cause import Cause, Fix, Judged, command

BLOCKING = command("export CUDA_LAUNCH_BLOCKING=1")
CAUSE = Cause(
    id="gpu-program-fault",
    title="a kernel of the program failed on the GPU",
    stages=("first collective", "training"),
    kind="illegal-access",
    restart="after a fix",
    judged={
        **dict.fromkeys(("assertion", "index"), Judged("assertion", "program", "after a fix")),
        **dict.fromkeys(("label", "between-0-and-1"), Judged("data", "program", "after a fix")),
        "no-probability": Judged("nan", "program", "after a fix"),
    },
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
        "xid-13": Fix(
            "Xid 13 is an exception of a kernel, and what stands behind the number in its line says which (an address "
            "out of range, a misaligned one, an instruction that this GPU has not): start the program under "
            "compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1, and build extensions for this GPU. The GPU needs no "
            "reset; where other programs get it too, on this GPU alone, have it tested (dcgmi diag -r 3).",
            (command("sudo dmesg --ctime | grep -i xid"),),
        ),
        "xid-31": Fix(
            "Xid 31 is a page fault: an address was used that is not mapped, by a kernel (ENGINE GRAPHICS in its line; "
            "an index out of range, or memory that was freed before) or by a copy (ENGINE CE). compute-sanitizer names "
            "the kernel, CUDA_LAUNCH_BLOCKING=1 the call. The GPU needs no reset; where programs that run elsewhere "
            "get it on this node, take another release of the driver there.",
            (command("sudo dmesg --ctime | grep -i xid"),),
        ),
        "too-long": Fix(
            "This GPU also serves a display, where a kernel may run for some seconds only (the watchdog of X and of "
            "Windows): take a GPU without a display, end the desktop on it, or make the kernel shorter (smaller "
            "batches); on Windows raise TdrDelay.",
            (command("nvidia-smi --query-gpu=index,display_active --format=csv"),),
        ),
        "library-call": Fix(
            "A kernel of that library did not run, and its status does not say why. Look in this order: an error of "
            "the same process above it (a device-side assertion, an illegal access, no memory), the kernel's log for "
            "an Xid of that GPU, how much memory was left (a smaller batch shows it), and whether the library is the "
            "one that torch brings (LD_LIBRARY_PATH). CUDA_LAUNCH_BLOCKING=1 shows the call.",
            (command("sudo dmesg --ctime | grep -i xid"), BLOCKING),
        ),
        "assertion": Fix(
            "An index or a label is out of range, as a rule: an embedding's index beyond its rows, a class beyond the "
            "last one, a negative label that is not ignore_index. Run the batch once on the CPU, or with "
            "CUDA_LAUNCH_BLOCKING=1: the exception then comes from the call that did it.",
            (BLOCKING,),
        ),
        "label": Fix(
            "A label that the loss was given is none of its classes: it has to be 0 to n_classes - 1, or ignore_index. "
            "Print the smallest and the largest label of the data set beside the number of outputs of the last layer; "
            "labels that begin at 1, masks of 255 and a pad token's -1 are the usual ones."
        ),
        "index": Fix(
            "An index is beyond the table in which it is looked up: a token beyond the vocabulary (a tokenizer with "
            "more tokens than the embedding has rows: resize_token_embeddings), a position beyond the longest "
            "sequence, a class beyond the last. Print the largest index beside the table's rows; "
            "CUDA_LAUNCH_BLOCKING=1 shows the line.",
            (BLOCKING,),
        ),
        "between-0-and-1": Fix(
            "Binary cross entropy got a value that is not between 0 and 1: a model's output without a sigmoid (take "
            "binary_cross_entropy_with_logits), targets that are no 0 and 1, or nan."
        ),
        "no-probability": Fix(
            "What is drawn from holds nan, inf or a negative number: the logits are not finite. Look where they first "
            "become so (torch.autograd.set_detect_anomaly, float16 where bfloat16 is meant, a temperature of 0)."
        ),
    },
    confirm="compute-sanitizer names the kernel; the same program fails on another GPU too.",
    foreseen_by=("gpu-xid-application",),
    source="CUDA's error texts (700, 710, 715, 716, 719, 702); NVIDIA Xid catalog",
)
