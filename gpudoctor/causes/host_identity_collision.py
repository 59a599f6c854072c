from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="host-identity-collision",
    title="two hosts look like one to NCCL",
    stages=("communicator",),
    kind="config",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "NCCL takes ranks with the same host name and boot id for neighbours on one machine, and tries shared "
        "memory or NVLink between machines."
    ),
    fix=Fix(
        "Give hosts and containers their own names and boot ids, or set another NCCL_HOSTID on each.",
        (command("hostname; cat /proc/sys/kernel/random/boot_id"),),
    ),
    confirm=("Compare host name and boot id over the nodes; in NCCL's log channels between nodes say P2P or SHM."),
    foreseen_by=("nccl-hostid-constant",),
    source=("NCCL misc/utils.cc (getHostHash)"),
)
