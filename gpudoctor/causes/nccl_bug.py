from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="nccl-bug",
    title="NCCL itself fails in this release",
    stages=("communicator", "first collective", "training"),
    kind="dependency-mismatch",
    blame="environment",
    restart="after a fix",
    hangs_by="together",
    meaning=(
        "All ranks launched the same collective and it does not end; known releases do so on certain machines "
        "or layouts."
    ),
    like=("concurrent-communicators", "p2p-acs-iommu"),
    fix=Fix(
        "Install a newer NCCL beside torch, and report what remains.",
        # the wheels of CUDA 12 and 13 put the same file into the same folder: the other one would break torch
        (
            command(
                "python -m pip install --upgrade "
                '$(python -c \'import torch; print("nvidia-nccl-cu" + torch.version.cuda.partition(".")[0])\')'
            ),
        ),
    ),
    confirm=("Run the same job with another NCCL: by pip, or by LD_PRELOAD of its libnccl.so.2."),
    source=("NCCL release notes; nccl#2385, marin#7344"),
)
