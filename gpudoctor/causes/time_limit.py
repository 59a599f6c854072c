from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="time-limit",
    title="the scheduler ended the job at its time limit",
    stages=("training",),
    kind="time-limit",
    blame="scheduler",
    restart="as it is",
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
    variants={
        "pod": (
            "Raise activeDeadlineSeconds where the job was getting on, and save before; where it was not, look for "
            "what it waited for."
        ),
        "pbs": "Ask for more (-l walltime=...) where the job was getting on, and save on SIGTERM, which comes first.",
        "lsf": "Ask for more (-W) where the job was getting on, and save on SIGUSR2, which comes first.",
    },
    confirm="The last step before the end is as young as usual: then nothing else was wrong.",
    source="SLURM slurmstepd, sbatch(1)",
)
