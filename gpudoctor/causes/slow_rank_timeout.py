from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="slow-rank-timeout",
    title="a rank is busy elsewhere for longer than the others wait",
    stages=("rendezvous", "communicator", "first collective", "training"),
    kind="slow-rank",
    restart="after a fix",
    hangs_by="elsewhere",
    slows=True,
    may_pass=True,
    meaning=(
        "One rank downloads, prepares data, compiles, evaluates or saves, while the others wait in a barrier "
        "or collective. They give up after their time-out though nothing is broken."
    ),
    like=("rank-died", "storage-stall"),
    fix=Fix(
        "Do the long work before the group is made, or on all ranks, or give the group a longer timeout "
        "(init_process_group(timeout=...))."
    ),
    variants={
        "import": (
            "See how long importing torch takes on that node: a slow or overloaded file system is the usual reason."
        ),
        "cuda": Fix("See whether CUDA starts on that node at all.", (command("gpudoctor check --deep"),)),
        "node": Fix("Examine that node.", (command("gpudoctor check"), command("uptime"))),
    },
    confirm=("The busy rank's stack moves between two looks, and it comes to the collective in the end."),
    source=("torch documentation of init_process_group(timeout); torchtune#2059, litgpt#1819"),
)
