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
    confirm=("From the node that fails, open a TCP connection to that address and port while the head waits."),
    source=("torch c10d socket.cpp (connect timeout)"),
)
