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
    confirm=("A test on one port per node (NCCL_IB_HCA with one name) works, and with all ports it fails."),
    foreseen_by=("rdma-rail-missing",),
    source=("NCCL documentation of NCCL_CROSS_NIC; nccl-tests#227"),
)
