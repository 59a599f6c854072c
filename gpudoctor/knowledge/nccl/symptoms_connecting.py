"""Symptoms of finding interfaces and connecting over TCP: bootstrap, NET/Socket.

Texts as in NCCL's misc/socket.cc, os/linux.cc, bootstrap.cc and transport/net_socket.cc from 2.18.3 to 2.30.7; an
issue is named where it shows the symptom.
"""

from gpudoctor.command import command
from gpudoctor.knowledge.nccl.symptom import Rule

PORTS = (
    "Open all TCP ports between the nodes, in both directions: NCCL listens on ports of the kernel's choice. Look at "
    "the log of the rank that failed first."
)

CONNECTING: tuple[Rule, ...] = (
    Rule(
        "no-socket-interface",
        needles=("Bootstrap : no socket interface found", "Bootstrap: no socket interface found"),
        seen="NCCL found no network interface to connect the ranks by",
        cause="NCCL_SOCKET_IFNAME names no interface of this node, or none that is up has an address.",
        fix="Name an interface that every node has, or take NCCL_SOCKET_IFNAME out.",
        commands=(command("ip -brief address"), command("unset NCCL_SOCKET_IFNAME")),
        source="NCCL bootstrap.cc; marin#6940, marin#7018",
    ),
    Rule(
        "no-listening-interface",
        needles=("No usable listening interface found", "No interface found in the same subnet"),
        seen="NCCL found no interface in the subnet of the address that it shall listen on",
        cause="NCCL_COMM_ID or NCCL_SOCKET_IFNAME points at a network that this node is not in.",
        fix="Take NCCL_COMM_ID out, which torch does not need, and name an interface of the common network.",
        commands=(command("unset NCCL_COMM_ID"), command("ip -brief address")),
        source="NCCL misc/socket.cc; nccl#929, nccl#331",
    ),
    Rule(
        "rdma-without-ip-interface",
        needles=("NET/IB : No IP interface found",),
        seen="NCCL found RDMA devices and no interface with an IP address for their handshake",
        cause="The two ends of an RDMA connection find each other over TCP, and no interface fits NCCL_SOCKET_IFNAME.",
        fix="Name an interface that is up, or take NCCL_SOCKET_IFNAME out.",
        commands=(command("ip -brief address"), command("unset NCCL_SOCKET_IFNAME")),
        source="NCCL transport/net_ib",
    ),
    Rule(
        "connect-gave-up",
        r"[Cc]onnect to (?P<address>\S+?) (?:failed :|returned) (?P<errno>[^,\n]*), exceeded error retry count",
        r"connect returned (?P<errno>[^,\n]*), exceeded error retry count",
        r"Connect to (?P<address>\S+?) (?:failed :|returned) (?P<errno>[^\n]*)",
        r"connect to (?P<address>\S+?) failed : (?P<errno>[^\n]*)",
        r"socket(?:Start|Poll)Connect:? exceeded (?P<errno>retries|timeouts)",
        needles=("exceeded error retry count", "socketStartConnect", "socketPollConnect", "connect to "),
        unless=", retrying",
        seen="a rank could not connect to {address}: {errno}",
        cause="A firewall between the nodes, an address that the others cannot reach (loopback, docker0, a second "
        "network), or a peer that had ended before.",
        fix=PORTS,
        commands=(command("gpudoctor nccl-test"), command("ip -brief address")),
        weight="connection",
        versions="2.18 to 2.30, in four wordings",
        source="NCCL misc/socket.cc, os/linux.cc; sglang#3820, nccl#1105",
    ),
    Rule(
        "connect-retrying",
        r"connect to (?P<address>\S+?) returned (?P<errno>[^,\n]*), retrying",
        r"Call to connect returned (?P<errno>[^,\n]*), retrying",
        needles=(", retrying",),
        seen="a rank is trying to connect to {address}: {errno}",
        cause="As long as it goes on, the peer does not listen yet, or a firewall is between the two.",
        fix=PORTS,
        weight="connection",
        source="NCCL misc/socket.cc",
    ),
    Rule(
        "peer-closed-connection",
        r"Connection closed by remote peer (?P<address>\S+)",
        r"Connection closed by remote peer",
        r"Call to (?:recv|send) (?:from|to) (?P<address>\S+) failed : (?P<errno>[^\n]*)",
        needles=("Connection closed by remote peer", "Call to recv ", "Call to send "),
        seen="the connection to {address} was closed by the other end",
        cause="The process at the other end has ended: an exception, out of memory, a signal.",
        fix="Find the rank that ended first; its log holds the cause.",
        weight="consequence",
        source="NCCL misc/socket.cc",
    ),
    Rule(
        "foreign-connection",
        r"socketFinalizeAccept(?: from (?P<address>\S+))?: wrong (?:type|magic)",
        r"socketFinalizeAccept(?: from (?P<address>\S+))?: didn't receive a valid magic",
        needles=("socketFinalizeAccept",),
        seen="something that is no rank of this job connected to NCCL's port, from {address}",
        cause="A port scanner, a second job on the same address, or another version of NCCL at the other end.",
        fix="Keep scanners off the compute network, and give every job a MASTER_PORT of its own.",
        weight="connection",
        versions="wording since 2.21 and since 2.27",
        source="NCCL misc/socket.cc; nccl-tests#188",
    ),
    Rule(
        "too-many-open-files",
        needles=("Accept failed: Too many open files", "Too many open files"),
        seen="the limit of open files was reached",
        cause="Every connection of NCCL is an open file, and the limit (ulimit -n) is too low for this many ranks.",
        fix="Raise the limit of open files to 65536 or more before the ranks start.",
        commands=(command("ulimit -n 65536"),),
        source="NCCL os/linux.cc",
    ),
    Rule(
        "no-net-plugin-started",
        needles=("Failed to initialize any NET plugin",),
        seen="NCCL could start no network at all",
        cause="NCCL_NET names a network that is not there: a plugin that is not installed, or IB on a node without "
        "RDMA.",
        fix="Take NCCL_NET out, or install what it names.",
        commands=(command("unset NCCL_NET NCCL_NET_PLUGIN"),),
        source="NCCL plugin/net.cc; ainode PR#87",
    ),
    Rule(
        "net-plugin-not-found",
        r"NET/Plugin: (?:No plugin found \((?P<plugin>[^)\n]*)\)|Could not find:? ?(?P<name>[^\n]*))",
        needles=("NET/Plugin: No plugin found", "NET/Plugin: Could not find"),
        seen="NCCL found no network plugin",
        cause="Normal on InfiniBand, RoCE and TCP. On AWS EFA and on Google Cloud the plugin is what makes RDMA work.",
        fix="On EFA install aws-ofi-nccl, on Google Cloud gIB; elsewhere nothing is to be done.",
        weight="note",
        versions="2.21 and 2.27 word it differently",
        source="NCCL plugin/net.cc",
    ),
    Rule(
        "network-is-tcp",
        r"Using network Socket(?:\s|$)",
        needles=("Using network Socket",),
        seen="NCCL goes over TCP (NET/Socket)",
        cause="There is no RDMA device that NCCL can use, or a setting keeps NCCL from it.",
        fix="Where the node has ACTIVE RDMA ports, make NCCL say why it does not take them.",
        commands=(command("gpudoctor check network nccl"), command("export NCCL_NET=IB NCCL_DEBUG=INFO")),
        weight="note",
        source="NCCL init.cc; AReaL#639",
    ),
    Rule(
        "nccl-versions-differ",
        r"Mismatched NCCL version detected : rank (?P<rank>\d+) version (?P<version>\d+) rank (?P<other>\d+) version "
        r"(?P<other_version>\d+)",
        needles=("Mismatched NCCL version detected",),
        seen="rank {rank} has NCCL {version} and rank {other} has {other_version}",
        cause="The nodes have different images or environments, or LD_LIBRARY_PATH leads to another libnccl on some.",
        fix="Give all nodes the same torch and NCCL, and take foreign folders out of LD_LIBRARY_PATH.",
        commands=(command("python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'"),),
        source="NCCL init.cc",
    ),
    Rule(
        "collective-timeout",
        r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<sequence>\d+), OpType=(?P<operation>\w+)",
        r"Watchdog caught collective operation timeout",
        needles=("Watchdog caught collective operation timeout",),
        seen="a collective ({operation}, number {sequence}) did not end before torch's timeout",
        cause="Not all ranks came to this collective, or the network does not carry its data. The rank that reports it "
        "is one that waited.",
        fix="Find the rank that is missing: each rank's last phase and stack tell.",
        weight="consequence",
        source="torch ProcessGroupNCCL",
    ),
)
