from gpudoctor.cause import Cause, Fix, command

CAUSE = Cause(
    id="rank-away",
    title="a rank has not come to what the others wait in",
    stages=("training", "first collective"),
    kind="slow-rank",
    restart="not decided",
    hangs_by="elsewhere",
    meaning=(
        "By the flight recorders this rank has ended all that it has issued, or went on after it, and has not issued "
        "the operation that others wait in. It stands in its program, on its node, or has ended: a recorder does not "
        "tell which."
    ),
    like=("slow-rank-timeout", "rank-divergent-decision", "uneven-inputs", "gil-deadlock", "storage-stall"),
    fix=Fix(
        "Look at this rank: the end of its output, and in the next run its stack while it hangs.",
        (command("gpudoctor hang"),),
    ),
    confirm=(
        "The stack of that rank decides, or the end of its output: whether it was busy, stood in a lock or a file, or "
        "took another way through the program."
    ),
    source=("torch FlightRecorder: an entry is made when an operation is issued; NCCL collectives need all ranks"),
)
