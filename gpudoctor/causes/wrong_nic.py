"""The ranks talk over a network interface that does not lead to the others."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="wrong-nic",
    title="the ranks talk over a network interface that does not lead to the others",
    stages=("communicator",),
    blame="fabric",
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
        "known": Fix(
            "Name the interface that leads to the other nodes{interface}, in the environment of every "
            "rank of that node, or unset the variable where it is set and not needed.",
        ),
        "gloo": Fix(
            "Name an interface that every node has, or take {variable} out: gloo then takes the hostname's address.",
            (command("ip -brief address"),),
        ),
    },
    confirm=(
        "Compare the interface of the log with the one that ip route get shows for a peer's address. A bridge "
        "has the same address on several hosts."
    ),
    source=("NCCL misc/socket.cc (ncclFindInterfaces), gloo transport/tcp; horovod#584"),
)
