from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="rank-not-started",
    title="a node cannot start its ranks",
    stages=("rendezvous",),
    kind="launcher",
    blame="environment",
    restart="not decided",
    hangs_by="gone",
    meaning=(
        "The training interpreter, torch or the launcher fails on that node before a rank begins. The ranks of the "
        "other nodes wait for it at the rendezvous until a time-out ends them."
    ),
    like=("master-unreachable", "rank-died"),
    fix=Fix("Examine that node.", (command("gpudoctor check pytorch"),)),
    variants={
        "interpreter": Fix(
            "Name an interpreter with torch that exists on every node with --python.", (command("gpudoctor check"),)
        ),
        "no torch": "Install the torch of the other nodes, or name the interpreter that has it with --python.",
        "import": Fix("Repair the environment of that node.", (command("gpudoctor check pytorch"),)),
    },
    confirm=("Import torch there with the interpreter that starts the ranks."),
    foreseen_by=("torch-import-fails",),
    source=("torchrun; our lab"),
)
