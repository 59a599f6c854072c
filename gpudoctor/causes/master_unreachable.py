"""The address of the head of the job cannot be reached."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="master-unreachable",
    title="the address of the head of the job cannot be reached",
    stages=("rendezvous",),
    blame="fabric",
    hangs_by="start",
    meaning=(
        "The ranks meet at MASTER_ADDR:MASTER_PORT (torchrun: its endpoint). From at least one node no "
        "connection comes about: the name is unknown, the address is in another network, packets are dropped, or "
        "nothing listens."
    ),
    fix=Fix(
        "Give a name or address of the head in the network that all nodes share, open the port in its firewall, "
        "and see that the process on the head has started.",
        (command("gpudoctor check network"),),
    ),
    variants={
        "name": Fix(
            "Use a name that every node resolves, or the address itself{address}.",
        ),
        "others' master": Fix(
            "Start {where} with the master that the others have, {endpoint}.",
        ),
        "dropped": Fix(
            "Open port {port} of {master} for the other nodes: in its firewall, in the network's "
            "(security group, ACL), or take an address of a network that all nodes share. The first line, "
            "on the node that waits, shows whether it is open; the others, on {master}, show and open it.",
        ),
        "nobody's": Fix(
            "No node that was looked at has this address. Take the address of rank 0's node in a network "
            "that all nodes share; `ip -brief address` on that node lists its addresses.",
            (command("ip -brief address"),),
        ),
    },
    confirm=("From the node that fails, open a TCP connection to that address and port while the head waits."),
    source=("torch c10d socket.cpp (connect timeout)"),
)
