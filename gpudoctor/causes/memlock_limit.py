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
        "Lift the limit for the ranks: docker's --ulimit memlock=-1, LimitMEMLOCK=infinity for the launcher's "
        "unit (slurmd, sshd), or /etc/security/limits.conf.",
        (command("ulimit -l"), command("gpudoctor check network")),
    ),
    variants={
        "pod": Fix(
            "A pod gets the limit of its node's container runtime: set LimitMEMLOCK=infinity for containerd's unit (or "
            "CRI-O's, Docker's) on the nodes and restart it; where that may not be, give the container the capability "
            "IPC_LOCK (securityContext.capabilities.add), which lifts it for root.",
            (command("ulimit -l"),),
        ),
    },
    confirm=("Read Max locked memory in /proc/PID/limits of a rank; a shell on the node may have another one."),
    foreseen_by=("memlock-too-low", "rdma-memlock-low"),
    source=("ibv_reg_mr(3), NCCL misc/ibvwrap.cc; nccl-tests#206"),
)
