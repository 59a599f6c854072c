from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="firewall-ephemeral-ports",
    title="a firewall drops connections to the ports that the ranks open",
    stages=("communicator", "first collective"),
    kind="firewall",
    blame="fabric",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The rendezvous has one known port, and behind it every rank listens on ports of the kernel's choice. "
        "With only MASTER_PORT open the ranks meet, and then cannot connect to each other. Where a rule is changed "
        "later, or forgets a connection, packets of it are lost without a word: both ranks wait until the kernel gives "
        "up after a quarter of an hour, or the time-out comes."
    ),
    like=("wrong-nic", "master-unreachable"),
    fix=Fix(
        "Open all TCP ports between the nodes in both directions (cloud: a rule of the security group that names "
        "itself). NCCL's ports cannot be chosen.",
        (command("gpudoctor check network"), command("sudo nft list ruleset")),
    ),
    variants={
        "ranks": (
            "Open all ports between the nodes of the job; gloo and NCCL listen on ports of the kernel's choice and "
            "cannot be held to one. In a cloud, a rule of the security group that allows itself. On {hosts} the first "
            "line shows what is dropped, the second opens it for the nodes' network."
        ),
        "went dead": Fix(
            "Find what drops the packets {way}: rules that were changed since the job began, connection "
            "tracking that is full or times out idle connections, the link. Then start the job again from "
            "its checkpoint; a dead connection does not come back by itself after a change of addresses.",
            (
                command("sudo nft list ruleset | grep -n -e drop -e reject"),
                command("sudo dmesg | grep -i -e conntrack -e 'link is'"),
            ),
        ),
        "refused": Fix(
            "Nobody listens at that address and port: the rank there has ended (its own log says why), or it told an "
            "address that is another machine's here (name the interface in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME). "
            "Only a firewall that rejects, and does not drop, looks the same.",
            (command("ip -brief address"), command("gpudoctor check network")),
        ),
        "gloo": Fix(
            "gloo told the other rank an address that it does not reach, mostly because a host's own name leads to a "
            "wrong one (127.0.1.1, a VPN's, a virtual interface's): name the interface of the nodes' common network on "
            "each of them (export GLOO_SOCKET_IFNAME=INTERFACE). Where the addresses are right, open all TCP ports "
            "between the nodes: gloo's cannot be chosen.",
            (command("getent ahosts $(hostname)"), command("ip -brief address")),
        ),
        "mpi": (
            "Open all TCP ports between the nodes, and name the common network in btl_tcp_if_include and "
            "oob_tcp_if_include."
        ),
    },
    confirm=("Listen on a free high port on one node and connect from another; do so both ways."),
    foreseen_by=("firewall-drops-nodes",),
    source=("nccl#388; NCCL bootstrap, gloo transport/tcp"),
)
