"""A firewall drops connections to the ports that the ranks open."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="firewall-ephemeral-ports",
    title="a firewall drops connections to the ports that the ranks open",
    stages=("communicator", "first collective"),
    blame="fabric",
    hangs_by="start",
    meaning=(
        "The rendezvous has one known port, and behind it every rank listens on ports of the kernel's choice. "
        "With only MASTER_PORT open the ranks meet, and then cannot connect to each other."
    ),
    like=("wrong-nic", "master-unreachable"),
    fix=Fix(
        "Open all TCP ports between the nodes in both directions (cloud: a rule of the security group that names "
        "itself). NCCL's ports cannot be chosen.",
        (command("gpudoctor check network"), command("sudo nft list ruleset")),
    ),
    confirm=("Listen on a free high port on one node and connect from another; do so both ways."),
    source=("nccl#388; NCCL bootstrap, gloo transport/tcp"),
)
