"""The scheduler ended the job at its time limit."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix

CAUSE = Cause(
    id="time-limit",
    title="the scheduler ended the job at its time limit",
    stages=("training",),
    blame="scheduler",
    hangs_by="gone",
    meaning=(
        "The time that the job had asked for was used up. A job that was getting on lost what it had not saved; one "
        "that hung was ended by this at last."
    ),
    like=("slow-rank-timeout", "storage-stall"),
    fix=Fix(
        "Where the job was getting on, ask for more time, and save on a signal before the end "
        "(--signal=B:USR1@300); where it was not, look for what it waited for before."
    ),
    confirm="The last step before the end is as young as usual: then nothing else was wrong.",
    source="SLURM slurmstepd, sbatch(1)",
)
