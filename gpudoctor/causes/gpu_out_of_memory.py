from gpudoctor.cause import Cause, Fix, command
from gpudoctor.remedies import fixes_of

CAUSE = Cause(
    id="gpu-out-of-memory",
    title="the memory of a GPU ran out",
    stages=("communicator", "first collective", "training"),
    kind="gpu-memory",
    restart="after a fix",
    hangs_by="gone",
    meaning=("A rank asked its GPU for more memory than is free. It ends by an exception, and the others wait for it."),
    like=("program-error", "duplicate-gpu"),
    fix=Fix(
        "Take smaller batches or shorter sequences, or shard the model; where only one rank fails, look at what "
        "it holds besides (data of rank 0, another process on its GPU, many communicators).",
        (command("nvidia-smi"),),
    ),
    variants={
        "program": Fix(
            "Have the program hold less on that GPU at once (a smaller problem, input or context, fewer processes on "
            "one GPU), end what else holds its memory, or take a GPU with more.",
            (command("nvidia-smi"),),
        ),
        **fixes_of("gpu-memory"),
    },
    confirm=(
        "torch's message tells how much the process itself holds and how much of the GPU is free: the rest is somebody "
        "else's, and nvidia-smi tells whose."
    ),
    foreseen_by=("gpu-memory-held",),
    source="torch CUDACachingAllocator.cpp; CUDA's error texts",
)
