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
        pattern=r"(?:Kill task failed|UnkillableStepTimeout(?! {0,20}=)|"
        r"STEPD TERMINATED ON \S{1,253} AT \S{1,30} DUE TO JOB NOT "
        r"ENDING)",
        cause="storage-stall",
        confidence=POSSIBLE,
        seen="a process of the job could not be killed: it waits in the kernel, for storage or a driver",
        source=SOURCE,
        sample="slurmstepd: error: *** JOB 88121 STEPD TERMINATED ON gpu-a03 AT 2025-08-19T11:42:12 DUE TO JOB NOT "
        "ENDING WITH SIGNALS ***",
        counter="slurmstepd: Kill task succeeded",
    ),
    Symptom(
        "slurm-launch-slow",
        pattern=r"timeout waiting for task launch, started (?P<started>\d{1,7}) of (?P<tasks>\d{1,7}) tasks",
        cause="node-lost",
        variant="launch-slow",
        confidence=LIKELY,
        seen="{started} of {tasks} tasks had started ten minutes after srun asked for them",
        source="slurm src/api/step_launch.c (slurm_step_launch_wait_start)",
        sample="srun: error: timeout waiting for task launch, started 12 of 16 tasks",
        counter="srun: error: Timed out waiting for job step to complete",
    ),
    Symptom(
        "slurm-step-lost",
        needle=("on node ", "to node ", "with node "),
        pattern=(
            r"[Aa]borting, (?:step missing and io error|io error and missing step|io error with slurmstepd) on node "
            r"(?P<number>\d{1,6})",
            r"Aborting, can not test connection to node (?P<number>\d{1,6})",
            r"srun: error: Cannot communicate with node (?P<number>\d{1,6})\.  Aborting job",
        ),
        cause="node-lost",
        variant="step-lost",
        confidence=LIKELY,
        seen="srun lost the step's daemon on the step's node number {number} (counted from 0)",
        source="slurm src/api/step_launch.c (_step_missing_handler, _check_io_timeout)",
        sample=(
            "srun: error: Aborting, step missing and io error on node 1",
            "srun: error: _check_io_timeout: aborting, io error with slurmstepd on node 0",
            "srun: error: Cannot communicate with node 3.  Aborting job.",
        ),
        counter="srun: launching StepId=88121.0 on host gpu-a03, 4 tasks: [0-3]",
    ),
    Symptom(
        "slurm-not-ready",
        pattern=(
            r"(?:srun|salloc): error: Nodes (?P<hosts>\S{1,253}) are still not ready",
            r"(?:srun|salloc): error: Something is wrong with the boot of the nodes",
        ),
        cause="node-lost",
        variant="not-ready",
        seen=("the nodes {hosts} of the job did not become ready", "nodes of the job did not become ready"),
        source="slurm src/srun/allocate.c, src/salloc/salloc.c",
        sample=(
            "srun: error: Nodes gpu-a[03-04] are still not ready",
            "salloc: error: Something is wrong with the boot of the nodes.",
        ),
        counter="srun: Nodes gpu-a[03-04] are ready for job",
    ),
    Symptom(
        "slurm-job-over",
        pattern=(
            r"srun: error: Slurm job (?P<job>\d{1,12}) has expired",
            r"Check SLURM_JOB_ID environment variable\. Expired or invalid job (?P<job>\d{1,12})",
        ),
        cause="scheduler-refused",
        variant="over",
        seen="srun runs in a shell of job {job} (SLURM_JOB_ID), which has ended",
        source="slurm src/srun/allocate.c (existing_allocation)",
        sample=(
            "srun: error: Slurm job 88121 has expired",
            "srun: error: Check SLURM_JOB_ID environment variable. Expired or invalid job 88121",
        ),
        counter="srun: error: Unable to confirm allocation for job 88121: Socket timed out on send/recv operation",
    ),
    Symptom(
        "slurm-directive",
        pattern=r"Invalid directive found in batch script: (?P<word>\S{1,200})",
        cause="scheduler-refused",
        variant="directive",
        seen="{word} in the lines #SBATCH is no option",
        source="slurm src/sbatch/opt.c (_opt_batch_script)",
        sample="sbatch: error: Invalid directive found in batch script: gpu",
        counter="sbatch: error: Change from #SLURM to #SBATCH in your script and verify the options are valid",
    ),
    Symptom(
        "slurm-nothing-to-run",
        needle=("Batch script is empty", "contains only whitespace", "No command given to execute"),
        pattern=(
            r"Batch script (?P<what>is empty|contains only whitespace)",
            r"srun: fatal: (?P<what>No command given to execute)",
        ),
        cause="scheduler-refused",
        variant="nothing",
        seen="SLURM was given nothing to run: {what}",
        source="slurm src/sbatch/sbatch.c, src/srun/opt.c",
        sample=("sbatch: error: Batch script is empty!", "srun: fatal: No command given to execute."),
        counter="sbatch: error: Script file is too large",
    ),
    Symptom(
        "slurm-multi-prog",
        needle=("onfiguration file ", "multi_prog config file "),
        pattern=(
            r"(?P<what>Line \d{1,6} of configuration file (?P<path>\S{1,200}?),? (?:is )?invalid)",
            r"Line \d{1,6} of configuration file (?P<path>[^\s,]{1,200}), (?P<what>program \S{1,200} not executable)",
            r"Configuration file (?P<path>\S{1,200}) invalid, (?P<what>no record for task id \d{1,7})",
            r"(?P<what>(?:Could not (?:open|stat)|Error reading) multi_prog config file (?P<path>\S{1,200}))",
        ),
        cause="scheduler-refused",
        variant="multi-prog",
        seen="srun --multi-prog refuses {path}: {what}",
        source="slurm src/srun/multi_prog.c, src/srun/launch.c",
        sample=(
            "srun: error: Line 2 of configuration file multi.conf, program python9 not executable",
            "srun: error: Configuration file multi.conf invalid, no record for task id 3",
        ),
        counter="srun: error: Unable to read configuration file",
    ),
    Symptom(
        "slurm-log-folder",
        pattern=r"Could not open std(?P<stream>out|err|in) file(?: (?P<path>[^\n:]{1,300}))?: "
        r"(?P<why>No such file or directory|Not a directory|Permission denied)",
        cause="scheduler-refused",
        variant="log-folder",
        seen=(
            "SLURM could not open the task's std{stream} {path}: {why}",
            "SLURM could not open the task's std{stream}: {why}",
        ),
        source="slurm src/slurmd/slurmstepd/io.c, src/srun/launch.c",
        sample="slurmstepd: error: Could not open stdout file /scratch/logs/fit-88121.out: No such file or directory",
        counter="slurmstepd: error: Could not open /dev/null: No such file or directory",
    ),
    Symptom(
        "slurm-node-part",
        needle="slurmstepd: error: ",
        pattern=(
            r"slurmstepd: error: (?P<what>TaskProlog failed status=\d{1,5}|"
            r"(?:\w{1,40}: )?(?:pam_open_session|pam_setcred|"
            r"namespace_g_\w{1,30}(?:\([^)\n]{1,40}\))?|_become_user|proctrack_g_(?:add|create)|switch_g_job_init|"
            r"task_g_set_affinity|Plugin stack initialization)[^\n]{0,120})"
        ),
        cause="scheduler-refused",
        variant="daemon",
        confidence=LIKELY,
        seen="SLURM's daemon could not set the task up on the node: {what}",
        source="slurm src/slurmd/slurmstepd/mgr.c, task.c, pam_ses.c; src/interfaces",
        sample=(
            "slurmstepd: error: TaskProlog failed status=1",
            "slurmstepd: error: pam_open_session: Permission denied",
            "slurmstepd: error: task_g_set_affinity: Operation not permitted",
            "slurmstepd: error: namespace_g_join(JobId=88121) failed",
        ),
        counter="slurmstepd: error: execve(): fit.sh: Permission denied",
    ),
)
