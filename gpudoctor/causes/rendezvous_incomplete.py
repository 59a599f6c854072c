"""Some nodes have not come to the rendezvous."""

from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="rendezvous-incomplete",
    title="not all nodes have come to the rendezvous",
    stages=("rendezvous",),
    kind="rendezvous",
    blame="environment",
    restart="not decided",
    hangs_by="start",
    meaning=(
        "Each node's torchrun first connects to the store on the first node and waits until all have; only then do "
        "ranks start. Importing torch from a slow file system also takes its time here."
    ),
    like=("master-unreachable", "rank-not-started", "launcher-world-mismatch"),
    fix=Fix(
        "See whether all nodes reach the store's port on the first, and how long torch takes to import.",
        (command("time python3 -c 'import torch'"),),
    ),
    confirm=("From each node that has no rank, open a TCP connection to the store's port while the first one waits."),
    source=("torch elastic/rendezvous/static_tcp_rendezvous.py; our lab"),
)
