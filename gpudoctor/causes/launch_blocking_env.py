from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="launch-blocking-env",
    title="CUDA_LAUNCH_BLOCKING is set",
    stages=("first collective", "training"),
    kind="config",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "Every kernel launch then waits for its end. A collective waits for kernels that the same thread would "
        "have to launch later, and never ends."
    ),
    fix=Fix("Take it out.", (command("unset CUDA_LAUNCH_BLOCKING"),)),
    confirm=("Without the variable the same job runs."),
    foreseen_by=("cuda-launch-blocking",),
    source=("CUDA programming guide; NCCL documentation (group calls)"),
)
