from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="wrong-nic",
    title="the ranks talk over a network interface that does not lead to the others",
    stages=("communicator",),
    kind="route",
    blame="environment",
    restart="after a fix",
    judged=dict.fromkeys(
        ("mpi", "none", "kinds", "sides", "bridge", "unfilled", "gloo-list"),
        Judged("nccl-setting", "environment", "after a fix"),
    ),
    hangs_by="start",
    meaning=(
        "NCCL or gloo took loopback, a container's bridge, a virtual or a link-local address, or the variable "
        "that names the interface fits none. Peers are told an address that means another machine to them, or nothing."
    ),
    like=("firewall-ephemeral-ports",),
    fix=Fix(
        "Name the interface that routes between the nodes in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, or take "
        "both out; an exclusion list excludes lo too (^docker0,lo).",
        (command("ip -brief address"), command("gpudoctor check network"), command("gpudoctor env")),
    ),
    variants={
        "none": (
            "Name an interface that this node has in NCCL_SOCKET_IFNAME, or take it out; an exclusion list excludes lo "
            "too (^docker0,lo)."
        ),
        "bridge": Fix(
            "Keep NCCL off {interface}: name the interface that leads to the other nodes in NCCL_SOCKET_IFNAME (and "
            "GLOO_SOCKET_IFNAME), on every node, or exclude it (^lo,{interface}).",
            (command("ip -brief address"),),
        ),
        "unfilled": Fix(
            "NCCL was told an interface that is not there, and took an address that nobody filled: name one that this "
            "node has in NCCL_SOCKET_IFNAME, or unset it.",
            (command("ip -brief address"), command("env | grep ^NCCL_")),
        ),
        "gloo-list": Fix(
            "GLOO_SOCKET_IFNAME takes names of interfaces only, and {interface} is NCCL's way to exclude some: name "
            "the interface that leads to the other nodes (of several, with commas), or unset it; NCCL_SOCKET_IFNAME "
            "may keep its list.",
            (command("ip -brief address"), command("ip route get 1.1.1.1")),
        ),
        "known": (
            "Name the interface that leads to the other nodes{interface}, in the environment of every "
            "rank of that node, or unset the variable where it is set and not needed."
        ),
        "gloo": Fix(
            "Name an interface that every node has, or take {variable} out: gloo then takes the hostname's address.",
            (command("ip -brief address"),),
        ),
        "comm-id": Fix(
            "NCCL_COMM_ID or NCCL_SOCKET_IFNAME points at a network that this node is not in: take NCCL_COMM_ID out, "
            "which torch does not need, and name an interface of the common network.",
            (command("unset NCCL_COMM_ID"), command("ip -brief address")),
        ),
        "no-route": Fix(
            "The other node told an address of a network to which this one has no route. Name in "
            "NCCL_SOCKET_IFNAME, on every node, the interface of a network that all nodes share, or give this node an "
            "address or a route there.",
            (command("ip route"), command("ip -brief address"), command("gpudoctor check network")),
        ),
        "sides": Fix(
            "InfiniBand and Ethernet (RoCE) do not talk to each other: name in NCCL_IB_HCA on every node the ports of "
            "the one kind that all nodes have.",
            (command("gpudoctor env"),),
        ),
        "mpi": Fix(
            "Name an interface of the network that all nodes share, to Open MPI's TCP and UCX, or to horovodrun by "
            "--network-interface: docker0 and its like have the same address on every host.",
            (
                command("export OMPI_MCA_btl_tcp_if_exclude=lo,docker0"),
                command("ip -brief address"),
                command("ucx_info -d"),
            ),
        ),
        "kinds": Fix(
            "A card has ports of both kinds, both ACTIVE: name the ports of one kind in NCCL_IB_HCA.",
            (command("gpudoctor env"),),
        ),
    },
    meanings={
        "none": "",
    },
    confirm=(
        "Compare the interface of the log with the one that ip route get shows for a peer's address. A bridge "
        "has the same address on several hosts."
    ),
    foreseen_by=(
        "socket-interface-missing",
        "socket-interface-virtual",
        "socket-interface-loopback",
        "socket-interface-off-route",
        "socket-interface-down",
        "gloo-interface-loopback",
    ),
    source=("NCCL misc/socket.cc (ncclFindInterfaces), gloo transport/tcp; horovod#584"),
)
