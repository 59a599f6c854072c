from gpudoctor.cause import Cause, Fix, command

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
    variants={
        "pod": Fix(
            "Ask Kubernetes, while it knows (events are kept for an hour): the pod's events tell of a deletion, a "
            "preemption, an eviction or a liveness probe that failed. Where the pod's service account may get pods, "
            "gpudoctor run asks by itself.",
            (command("kubectl get events --sort-by=.lastTimestamp"), command("kubectl describe pod")),
        ),
    },
    confirm="The scheduler's record names who cancelled it (sacct --format=State%40: CANCELLED by UID).",
    source="slurm slurmstepd; LSF bacct(1)",
)
