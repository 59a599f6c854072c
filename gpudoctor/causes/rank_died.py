from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="rank-died",
    title="a rank has died",
    stages=("rendezvous", "communicator", "first collective", "training"),
    kind="dead-rank",
    restart="not decided",
    judged={
        "sigkill": Judged("host-memory", "program", "not decided"),
        "killed": Judged("signal", "environment", "not decided"),
        "memory": Judged("host-memory", "program", "after a fix"),
    },
    hangs_by="gone",
    while_running="while nobody waits",
    meaning=(
        "A rank ended by an exception, a signal or the kernel's OOM killer. The others wait for it in their "
        "next collective until a time-out, and their messages name the wrong rank."
    ),
    like=("host-out-of-memory", "native-crash", "program-error"),
    fix=Fix(
        "Repair what ended that rank: its own log has the exception, and the kernel's log what killed it.",
        (command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill|segfault|Xid'"),),
    ),
    variants={
        "killed": Fix(
            "Look who ends processes there: the OOM killer, a scheduler, a container's runtime, or a person.",
            (
                command("sudo dmesg -T | grep -iE 'out of memory|oom-kill|killed process' | tail"),
                command("free -h"),
            ),
        ),
        "asked to end": "Look who ended it: the scheduler's log of this job.",
        "crashed": Fix(
            "Examine that node, and compare its versions with those of the others.",
            (command("gpudoctor check --deep"),),
        ),
        "exception": Fix(
            "Examine that node; where only some nodes fail, compare it with one that does not.",
            (command("gpudoctor check"),),
        ),
        "memory": (
            "Give the job more memory or let it need less: smaller batches, fewer data loader workers "
            "(num_workers x ranks processes share the limit), no copy of the data set in every worker."
        ),
        "sigkill": Fix(
            "Mostly the kernel's out-of-memory killer, or the memory limit of the container or SLURM step: give the "
            "job more memory, or fewer DataLoader workers. Somebody may also have killed it by hand.",
            (command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill'"),),
        ),
        "ray": Fix(
            "Read what that worker wrote last, in /tmp/ray/session_latest/logs on its node (worker-*.err; Ray Train's "
            "own in train/), and what killed it there.",
            (command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill|segfault'"),),
        ),
        "by itself": (
            "Look where the program ends itself with that status: sys.exit, os._exit, a shell's exit, "
            "or a library in C that does so."
        ),
        "silent": "Look for the output of {who}: torchrun --log-dir LOGS --tee 3 keeps it.",
    },
    confirm=(
        "Look for the rank's own output (torchrun --log-dir LOGS --tee 3 keeps it), at the exit status of every rank, "
        "at memory.events of the cgroup and at the kernel's log."
    ),
    source=("waitpid(2); torchrun's failure table; kernel mm/oom_kill.c"),
)
