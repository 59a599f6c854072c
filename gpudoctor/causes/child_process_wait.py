from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="child-process-wait",
    title="a rank waits for a process that it has started",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "A rank has started a command or a process and waits for its end or its output. As long as that "
        "neither ends nor writes, the rank does not come to the collective in which the others wait."
    ),
    like=(
        "slow-rank-timeout",
        "storage-stall",
    ),
    fix=Fix(
        "Give the wait a timeout (subprocess.run(..., timeout=...), Process.join(timeout)), and look at "
        "what the process waits for."
    ),
    variants={
        "input": (
            "The process reads its standard input, at which nobody types: give it stdin=subprocess.DEVNULL, "
            "and the option by which it does not ask (--yes, --force, BatchMode)."
        ),
        "output": (
            "The process writes to a pipe that nobody reads, and a pipe holds 64 KiB: read its output while "
            "it runs (communicate, or capture_output=True), or send it to a file."
        ),
        "unread": (
            "The program writes to a pipe whose reader does not read any more: a pipe holds 64 KiB. Write to "
            "a file, or look at what its reader does."
        ),
        "endless": (
            "The command does not end by itself: take the option by which it follows or serves away, or give "
            "the wait a timeout."
        ),
    },
    confirm="The process has used no CPU time between looks, and its stack or system call says what it waits for.",
    source="Python documentation of subprocess and multiprocessing",
)
