from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="cancelled",
    title="somebody ended the job",
    stages=("training",),
    kind="user-interrupt",
    blame="user",
    restart="not decided",
    hangs_by="gone",
    meaning="The job was ended from outside, by its user, an administrator or a script. Nothing in it need be wrong.",
    like=("preempted", "time-limit"),
    fix=Fix("Ask who ended it and why; where it stood still before, look for what it waited for."),
    confirm="The scheduler's record names who cancelled it (sacct --format=State%40: CANCELLED by UID).",
    source="slurm slurmstepd; LSF bacct(1)",
)
