from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="rail-cross-nic",
    title="NICs of different rails try to talk to each other",
    stages=("first collective",),
    kind="rdma",
    blame="fabric",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "On rail-optimised networks without a common spine, a NIC reaches only the same NIC of other nodes. "
        "NCCL that crosses rails makes connections that time out."
    ),
    like=("ib-link-down", "roce-gid-index"),
    fix=Fix("Keep NCCL on one rail, and name the compute ports only.", (command("export NCCL_CROSS_NIC=0"),)),
    variants={
        "unanswered": Fix(
            "The port that the line names did not find its peer's: rails or subnets that do not see each other, a GID "
            "of another network or VLAN, or a port that is down on the other side. Ping the peer's address of that "
            "network from that port's interface; where rails are apart keep NCCL on one (NCCL_CROSS_NIC=0), else name "
            "in NCCL_IB_HCA the ports that reach each other.",
            (command("rdma link show"), command("export NCCL_CROSS_NIC=0")),
        ),
    },
    confirm=("A test on one port per node (NCCL_IB_HCA with one name) works, and with all ports it fails."),
    foreseen_by=("rdma-rail-missing",),
    source=("NCCL documentation of NCCL_CROSS_NIC; nccl-tests#227"),
)
