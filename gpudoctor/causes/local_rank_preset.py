from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="local-rank-preset",
    title="LOCAL_RANK or NODE_RANK was set before the framework started its processes",
    stages=("rendezvous",),
    kind="launcher",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "Lightning starts one process per GPU by itself, unless LOCAL_RANK or NODE_RANK tells it that a "
        "launcher did so. A leftover value makes the one process there is wait for ranks that nobody starts."
    ),
    like=("launcher-world-mismatch",),
    fix=Fix(
        "Take the variables out of the environment of the start: look in the shell's rc files, the image's ENV "
        "lines and the batch script. Under a launcher that starts all ranks, let that launcher set them.",
        (command("env | grep -E '^(LOCAL_RANK|NODE_RANK|RANK|WORLD_SIZE|GROUP_RANK)='"),),
    ),
    variants={
        "known": (
            "Unset {variables} and start again; what sets it is an rc file, an image's ENV, or the shell "
            "of an earlier job. The line goes before the start, in the same shell, or starts it without."
        ),
    },
    confirm=("Start the same command by env -u LOCAL_RANK -u NODE_RANK: it then starts all processes."),
    source=("Lightning's ClusterEnvironment (creates_processes_externally); Lightning#5651"),
)
