from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="master-addr-loopback",
    title="a node gave the others an address of its own loopback",
    stages=("rendezvous", "communicator"),
    kind="name-resolution",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The host's name, or MASTER_ADDR, stands for 127.x, which each node takes for itself. The other nodes "
        "connect to nobody, or to themselves."
    ),
    like=("master-unreachable", "wrong-nic"),
    fix=Fix(
        "Write the host's routable address beside its name in /etc/hosts and take it off the 127.0.1.1 line; give "
        "MASTER_ADDR as an address that the other nodes reach; name the interface in GLOO_SOCKET_IFNAME.",
        (command('getent ahosts "$(hostname)"'), command("gpudoctor check network")),
    ),
    variants={
        "head": "Name the node of rank 0 by an address that the other nodes reach. The same line goes to every node.",
        "known head": (
            "Name the node of rank 0 by an address that the other nodes reach: {address} is {master}'s. "
            "The same line goes to every node."
        ),
        "hostname": (
            "Let the hostname resolve to the address of the network (the line of 127.0.1.1 in "
            "/etc/hosts), or name the interface on {hosts}{interface}."
        ),
        "own store": Fix(
            "On several nodes, give MASTER_ADDR as an address that all nodes reach. On one node, see that rank 0 "
            "starts, and that the script does not set another MASTER_PORT than the launcher's.",
            (command("env | grep ^MASTER_"), command("gpudoctor check network")),
        ),
        "mesh": Fix(
            "Give every node's name a routable address in /etc/hosts, or name the interface in GLOO_SOCKET_IFNAME. On "
            "one node, look for the rank that ended.",
            (command('getent ahosts "$(hostname)"'), command("gpudoctor check network")),
        ),
    },
    confirm=("Resolve the head's name on every node: none answers 127.x, and a connection from a peer is accepted."),
    foreseen_by=("master-addr-loopback", "hostname-loopback", "gloo-interface-loopback"),
    source=("gloo's transport/tcp (address of the host's name), Debian's 127.0.1.1 line; seen in our lab"),
)
