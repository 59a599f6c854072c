"""A node went away while the job ran."""

from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="node-lost",
    title="a node was lost while the job ran",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="node-lost",
    blame="node",
    restart="elsewhere",
    judged={
        "launch": Judged("scheduler", "node", "elsewhere"),
    },
    hangs_by="gone",
    while_running="while nobody waits",
    meaning=(
        "The connection to the node, what watches over it there, or the node itself has ended, or it is so short of "
        "memory or processors that it cannot answer. Its ranks can no longer be seen, and the others wait for them."
    ),
    like=("rank-died", "master-unreachable"),
    fix=Fix(
        "See whether the node is up, and what its log says of that time (out of memory, a link that went down).",
        (command("uptime; sudo dmesg -T | tail -n 40"),),
    ),
    variants={
        "launch": Fix(
            "Leave that node out (--exclude) and look at its slurmd; a held job goes on with scontrol release.",
            (command("sinfo --list-reasons"),),
        ),
    },
    confirm=("Log in there, and look at the scheduler's state of the node."),
    source=("our lab: a host that is switched off or frozen while ranks measure"),
)
