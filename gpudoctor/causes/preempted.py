from gpudoctor.cause import Cause, Fix, Symptom

CAUSE = Cause(
    id="preempted",
    title="the scheduler took the nodes for another job",
    stages=("training",),
    kind="preempted",
    blame="scheduler",
    restart="as it is",
    hangs_by="gone",
    meaning="A job of a higher priority got the nodes. Nothing in this one was wrong.",
    like=("time-limit",),
    fix=Fix("Save checkpoints on SIGTERM and requeue (--requeue, --signal), or use a partition without preemption."),
    variants={
        "pod": (
            "Start it again: it goes on where room is. Save checkpoints on SIGTERM, or give the pod a priority class "
            "of its own."
        ),
        "node": "Start it again on other nodes, and save checkpoints on SIGTERM: the node was drained or shut down.",
        "requeued": "Start from the last checkpoint; a job that saves on SIGTERM loses nothing.",
        "spot": "Start it again; save often or on the notice, or take machines that are not spot.",
    },
    meanings={
        "spot": "The cloud took the machine back. Nothing in this job was wrong.",
        **dict.fromkeys(("node", "requeued"), ""),
    },
    confirm="The scheduler's record of the job says PREEMPTED.",
    symptoms=(
        Symptom(
            "slurm-preempted",
            pattern=r"(?P<kind>JOB|STEP) (?P<step>\S{1,40}) (?:ON (?P<host>\S{1,253}) )?CANCELLED(?: AT \S{10,30})? "
            r"DUE TO PREEMPTION",
            seen="SLURM took the nodes away for another job ({kind} {step})",
            source="SLURM srun, slurmstepd",
            sample="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO PREEMPTION ***",
            counter="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 ***",
        ),
    ),
    source="SLURM slurmstepd, preemption guide",
)
