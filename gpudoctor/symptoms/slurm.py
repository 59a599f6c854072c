"""What srun and slurmstepd say of a step and its tasks. A task of a step that starts ranks is a rank."""

from gpudoctor.symptom import HINT, LIKELY, POSSIBLE, PROVED, Symptom

TASK = r"srun: error: (?P<host>[\w.-]{1,253}): tasks? (?P<tasks>[\d,\[\]-]{1,200}): "
SOURCE = "SLURM srun, slurmstepd"
CANCELLED = r"(?P<kind>JOB|STEP) (?P<step>\S{1,40}) (?:ON (?P<host>\S{1,253}) )?CANCELLED(?: AT (?P<time>\S{10,30}))? "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "slurm-oom",
        pattern=(
            r"[Dd]etected \d{1,6} oom[-_]kill event\w?(?:\(s\))? in (?:StepId=|[Ss]tep "
            r"?)?(?P<step>\d+(?:\+\d+)?(?:\.\w{1,12})?)",
            TASK + r"Out Of Memory",
        ),
        cause="host-out-of-memory",
        variant="slurm",
        confidence=PROVED,
        seen="SLURM's memory limit was reached, and the kernel killed a task",
        source=SOURCE,
        sample=(
            "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=88121.0. Some of your processes may have been "
            "killed by the cgroup out-of-memory handler.",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=88121.batch. Some of the step tasks have been "
            "OOM Killed.",
            "srun: error: gpu-a03: task 5: Out Of Memory",
        ),
        counter="slurmstepd: error: no oom events",
    ),
    Symptom(
        "slurm-task-status-of-signal",
        pattern=TASK + r"Exited with exit code (?P<exitcode>13[25679])\b",
        cause="rank-died",
        confidence=LIKELY,
        seen="task {tasks} on {host} was ended by a signal (status {exitcode})",
        source=SOURCE + "; bash's status of a program that a signal ended: 128 and its number",
        sample="srun: error: gpu-a03: task 5: Exited with exit code 139",
        counter="srun: error: gpu-a03: task 5: Exited with exit code 1",
    ),
    Symptom(
        "slurm-task-ended",
        pattern=(
            TASK + r"Exited with exit code (?P<exitcode>(?!13[25679]\b)\d{1,3})",
            TASK + r"(?P<signal>Terminated|Aborted|Interrupt|Hangup)",
        ),
        role="consequence",
        confidence=HINT,
        seen="task {tasks} on {host} failed",
        source=SOURCE,
        sample=("srun: error: gpu-a03: tasks 4-7: Exited with exit code 1", "srun: error: gpu-a03: task 5: Terminated"),
        counter="srun: error: gpu-a03: task 5: Killed",
    ),
    Symptom(
        "slurm-time-limit",
        pattern=CANCELLED + r"DUE TO TIME LIMIT",
        cause="time-limit",
        role="consequence",
        seen="SLURM ended {kind} {step} at its time limit",
        source=SOURCE,
        sample="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO TIME LIMIT ***",
        counter="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO NODE FAILURE, SEE "
        "SLURMCTLD LOG FOR DETAILS ***",
    ),
    Symptom(
        "slurm-node-failed",
        pattern=(CANCELLED + r"DUE TO NODE FAILURE", r"srun: error: Node failure on (?P<host>\S{1,253})"),
        cause="node-lost",
        seen="a node of the job failed",
        source=SOURCE,
        sample=(
            "slurmstepd: error: *** STEP 88121.0 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO NODE FAILURE, SEE "
            "SLURMCTLD LOG FOR DETAILS ***",
            "srun: error: Node failure on gpu-a07",
        ),
        counter="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO TIME LIMIT ***",
    ),
    Symptom(
        "slurm-cancelled",
        needle=(
            " CANCELLED ",
            " FAILED (non-zero exit code",
            "Job step aborted: Waiting up to",
            "srun: forcing job termination",
            "Force Terminated",
        ),
        pattern=(
            CANCELLED + r"(?:\*\*\*|DUE [Tt][Oo] (?:SIGNAL|TASK FAILURE|JOB NOT ENDING))",
            r"\*\*\* (?:JOB|STEP) (?P<step>\S{1,40}) ON \S{1,253} FAILED \(non-zero exit code",
            r"srun: Job step aborted: Waiting up to \d+ seconds",
            r"srun: forcing job termination",
            r"srun: (?:error: )?(?:Force Terminated|Terminating) (?:StepId=|[Jj]ob ?[Ss]tep )",
        ),
        role="consequence",
        confidence=HINT,
        seen="SLURM ended the step: it was cancelled, or a task had failed",
        source=SOURCE,
        sample=(
            "slurmstepd: error: *** STEP 88121.0 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 ***",
            "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        ),
        counter="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO PREEMPTION ***",
    ),
    Symptom(
        "slurm-step-waits",
        pattern=r"srun: [Jj]ob (?P<step>\S{1,40}) step creation temporarily disabled, retrying "
        r"\((?P<reason>[^)\n]{1,80})\)",
        cause="launcher-world-mismatch",
        variant="step",
        confidence=LIKELY,
        seen="srun waits for resources of its own job ({reason}): another step holds them",
        source=SOURCE,
        sample="srun: Job 88121 step creation temporarily disabled, retrying (Requested nodes are busy)",
        counter="srun: Step created for StepId=88121.1",
    ),
    Symptom(
        "slurm-fewer-nodes",
        pattern=r"srun: warning: can't run (?P<tasks>\d+) processes on (?P<nodes>\d+) nodes",
        cause="launcher-world-mismatch",
        variant="tasks",
        role="context",
        confidence=POSSIBLE,
        seen="srun starts {tasks} tasks, and takes fewer than the {nodes} nodes that it was asked for",
        source=SOURCE,
        sample="srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
        counter="srun: job 88121 queued and waiting for resources",
    ),
    Symptom(
        "slurm-tasks-do-not-fit",
        pattern=(
            r"Unable to create step for job \S{1,40}: (?P<reason>More processors requested than permitted|"
            r"(?:Task|Node|Cpu|CPU) count specification invalid[^\n]{0,40})",
        ),
        cause="launcher-world-mismatch",
        variant="tasks",
        seen="the tasks that srun was asked for do not fit the nodes of the job ({reason})",
        source=SOURCE,
        sample="srun: error: Unable to create step for job 88121: More processors requested than permitted",
        counter="srun: error: Unable to create step for job 88121: Requested nodes are busy",
    ),
    Symptom(
        "slurm-chdir",
        pattern=r"couldn't chdir to `(?P<path>[^'\n]{1,400})': [^:\n]{1,80}: going to (?P<other>\S{1,80}) instead",
        cause="program-error",
        variant="chdir",
        seen="SLURM found no folder {path} on the node, and started the job in {other}",
        source="slurm src/slurmd/slurmstepd/task.c",
        sample="slurmstepd: error: couldn't chdir to `/scratch/mt': No such file or directory: going to /tmp instead",
        counter="slurmstepd: error: couldn't chdir to `/scratch/mt': No such file or directory",
    ),
    Symptom(
        "slurm-kill-failed",
        pattern=r"(?:Kill task failed|UnkillableStepTimeout|STEPD TERMINATED ON \S{1,253} AT \S{1,30} DUE TO JOB NOT "
        r"ENDING)",
        cause="storage-stall",
        confidence=POSSIBLE,
        seen="a process of the job could not be killed: it waits in the kernel, for storage or a driver",
        source=SOURCE,
        sample="slurmstepd: error: *** JOB 88121 STEPD TERMINATED ON gpu-a03 AT 2025-08-19T11:42:12 DUE TO JOB NOT "
        "ENDING WITH SIGNALS ***",
        counter="slurmstepd: Kill task succeeded",
    ),
)
