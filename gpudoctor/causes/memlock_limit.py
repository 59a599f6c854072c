from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="memlock-limit",
    title="the limit of locked memory is too low for RDMA",
    stages=("communicator",),
    kind="limits",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=("RDMA pins its buffers. Under a low limit they cannot be registered, and the connection is not made."),
    fix=Fix(
        "Lift the limit for what starts the ranks (docker: --ulimit memlock=-1; SLURM: LimitMEMLOCK=infinity in "
        "slurmd's unit, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf; Kubernetes: LimitMEMLOCK=infinity in "
        "the unit of the node's container runtime, or the capability IPC_LOCK for the container; a login or ssh: "
        "/etc/security/limits.conf, or LimitMEMLOCK=infinity in sshd's unit).",
        (command("ulimit -l"), command("gpudoctor check network")),
    ),
    confirm=("Read Max locked memory in /proc/PID/limits of a rank; a shell on the node may have another one."),
    foreseen_by=("memlock-too-low", "rdma-memlock-low"),
    source=("ibv_reg_mr(3), NCCL misc/ibvwrap.cc; nccl-tests#206"),
)
