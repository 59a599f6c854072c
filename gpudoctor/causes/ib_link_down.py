from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="ib-link-down",
    title="an RDMA port is down or loses its link",
    stages=("first collective", "training"),
    kind="rdma",
    blame="fabric",
    restart="elsewhere",
    hangs_by="start",
    meaning=(
        "Packets over this port are not acknowledged. Retries run out, or the job stands until they do. A port "
        "that stays in INIT has no subnet manager."
    ),
    like=("rail-cross-nic", "roce-gid-index"),
    fix=Fix(
        "Exchange cable or optics, or leave the port out of NCCL_IB_HCA; start the subnet manager where the state "
        "is INIT.",
        (command("rdma link show"), command("gpudoctor check network")),
    ),
    variants={
        "retries": Fix(
            "Look at the port's error counters and its GID on both ends: cable or port down, a wrong GID, no route "
            "between rails, packets lost without flow control, or UDP port 4791 filtered. On rails without a common "
            "spine, keep NCCL on one rail (NCCL_CROSS_NIC=0).",
            (command("gpudoctor check network"), command("rdma statistic show")),
        ),
        "no subnet manager": Fix(
            "Start the subnet manager of that fabric (opensm on a node, or the one of the switch); without it the port "
            "never becomes active. Until then leave the port out of NCCL_IB_HCA.",
            (command("sudo sminfo"), command("sudo systemctl start opensm")),
        ),
        "counts": Fix(
            "Find the node whose port is not ACTIVE, or that hides it from the container.",
            (command("gpudoctor check network"),),
        ),
        "namespace": Fix(
            "The interface that the GID belongs to is down, or in another network namespace (a pod's): use the host's "
            "network in the container, or a plugin that moves interface and device together.",
            (command("ip -brief address"), command("rdma link show")),
        ),
    },
    confirm=("Look at state and counters of the port twice: it is not ACTIVE, or link_downed grows."),
    foreseen_by=("rdma-port-down", "rdma-link-flapping", "rdma-errors-counting", "rdma-port-without-subnet-manager"),
    source=("InfiniBand port states; NCCL net_ib (async events); nccl#905"),
)
