"""How schedulers say that a job was refused, ended or taken away: SLURM's clients, PBS, LSF; clouds' notices of spot.

Texts as in slurm src/common/slurm_errno.c, src/sbatch, src/srun, src/slurmctld; openpbs src/resmom; IBM's bacct(1).
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, PROVED, Symptom

REFUSED = (
    r"(?:Batch job submission failed|Job submit/allocate failed|Unable to allocate resources|"
    r"Unable to confirm allocation for job \S{1,40}|Unable to create step for job \S{1,40}): "
)
SAID_ELSEWHERE = (
    r"Invalid (?:account|qos|partition|user|reservation)|User's group not permitted|Access/permission denied|Job "
    r"violates accounting|Requested time limit is invalid|Invalid time-min|MaxJobCount|Invalid (?:generic|GRES)|"
    r"Insufficient GRES|Requested GRES option|Requested node configuration is not|Memory (?:required|specification)|"
    r"Unable to contact|Socket timed out|Zero Bytes|Protocol authentication|Communication |Connection |Message |Rate "
    r"limit"
)
OF_STEPS = r"More processors requested|(?:Task|Node|Cpu|CPU) count spec|Step creation temp|Immediate execution"
"""Of a step another entry tells them."""
SOURCE = "slurm src/common/slurm_errno.c, src/sbatch, src/srun"

ROW = r"(?:^|[\s:\]])(?P<job>\d{2,12})(?:_\d+)?(?:\.\w{1,12})?\s[^\n]{0,160}?(?<=\s)"
OF_ANOTHER = r"^\s{0,12}(?!<job>\b)\d{2,12}(?:_\d+)?\s[^\n]{0,160}?\s(?:RUNNING|COMPLETED)\s"
"""sacct's row of a job, and of a later one that runs, or has ended well."""

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "slurm-refused-account",
        pattern=REFUSED + r"(?P<reason>Invalid (?:account|qos|partition|user|reservation)[^\n]{0,80}|"
        r"User's group not permitted[^\n]{0,60}|Access/permission denied)",
        cause="scheduler-refused",
        variant="account",
        confidence=PROVED,
        seen="SLURM refused the job: {reason}",
        source=SOURCE,
        sample="sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
        counter="sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    ),
    Symptom(
        "slurm-refused-limit",
        pattern=REFUSED + r"(?P<reason>Job violates accounting/QOS policy[^\n]{0,90}|MaxJobCount limit reached)",
        cause="scheduler-refused",
        variant="quota",
        confidence=PROVED,
        seen="SLURM refused the job: {reason}",
        source=SOURCE,
        sample="sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, "
        "user's size and/or time limits)",
        counter="sbatch: Submitted batch job 88121",
    ),
    Symptom(
        "slurm-refused-time",
        pattern=REFUSED + r"(?P<reason>Requested time limit is invalid[^\n]{0,60}|Invalid time-min[^\n]{0,80})",
        cause="scheduler-refused",
        variant="time",
        confidence=PROVED,
        seen="SLURM refused the job: {reason}",
        source=SOURCE,
        sample="sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some "
        "limit)",
        counter="sbatch: error: Batch job submission failed: Job violates accounting/QOS policy",
    ),
    Symptom(
        "slurm-refused-gres",
        pattern=REFUSED.replace("Unable to create step", "Unable to create (?P<step>step)")
        + r"(?P<reason>Invalid generic resource \(gres\) specification|Invalid GRES specification[^\n]{0,60}|"
        r"Insufficient GRES available in allocation|Requested GRES option unsupported[^\n]{0,60})",
        cause="scheduler-refused",
        variant="devices",
        confidence=PROVED,
        seen="SLURM cannot give what was asked for: {reason}",
        source=SOURCE,
        sample="srun: error: Unable to create step for job 88121: Invalid generic resource (gres) specification",
        counter="srun: job 88121 queued and waiting for resources",
    ),
    Symptom(
        "slurm-refused-node",
        pattern=REFUSED + r"(?P<reason>Requested node configuration is not available|"
        r"Memory (?:required by task|specification)[^\n]{0,40})",
        cause="scheduler-refused",
        variant="node",
        confidence=PROVED,
        seen="SLURM cannot give what was asked for: {reason}",
        source=SOURCE,
        sample="sbatch: error: Batch job submission failed: Requested node configuration is not available",
        counter="srun: job 88121 queued and waiting for resources",
    ),
    Symptom(
        "slurm-refused",
        pattern=(
            REFUSED + rf"(?P<reason>(?!{SAID_ELSEWHERE}|{OF_STEPS})[A-Z][^\n]{{4,120}})",
            rf"(?:submission failed|allocate failed|allocate resources): (?P<reason>(?:{OF_STEPS})[^\n]{{0,100}})",
        ),
        cause="scheduler-refused",
        confidence=LIKELY,
        seen="SLURM refused the job or its step: {reason}",
        source=SOURCE,
        sample=(
            "srun: error: Unable to allocate resources: Requested nodes not in this partition",
            "sbatch: error: Batch job submission failed: Job script not specified",
            "srun: error: Unable to create step for job 88121: Job/step already completing or completed",
        ),
        counter="sbatch: error: Batch job submission failed: Invalid qos specification",
    ),
    Symptom(
        "slurm-unanswered",
        pattern=(
            REFUSED + r"(?P<reason>Unable to contact slurm controller[^\n]{0,40}|Socket timed out[^\n]{0,40}|Zero "
            r"Bytes were transmitted[^\n]{0,20})",
            r"(?P<reason>Unable to contact slurm controller \([a-z ]{4,24}\))",
            REFUSED
            + r"(?P<reason>Protocol authentication error|(?:Communication|Connection|Message) [^\n]{1,60}|Rate limit "
            r"exceeded[^\n]{0,40})",
            r"(?P<reason>Munge encode failed: [^\n]{1,120})",
        ),
        cause="scheduler-refused",
        variant="controller",
        seen="SLURM's controller did not answer: {reason}",
        source=SOURCE,
        sample=(
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        ),
        counter="sbatch: error: Batch job submission failed: Invalid qos specification",
    ),
    Symptom(
        "slurm-no-address",
        pattern=r"[Cc]an't find (?:an )?address(?: for host (?P<host>[\w.-]{1,253}))?, check slurm\.conf",
        cause="scheduler-refused",
        variant="address",
        seen=("SLURM knows no address of {host}", "SLURM knows no address of a node"),
        source="slurm src/common/forward.c (fwd_tree_thread), slurm_errno.c",
        sample="srun: error: fwd_tree_thread: can't find address for host gpu-a03, check slurm.conf",
        counter="srun: launching StepId=88121.0 on host gpu-a03, 4 tasks: [0-3]",
    ),
    Symptom(
        "slurm-launch-failed",
        needle=("requeued held", "requeued_held", "Task launch for ", " launch failed: "),
        pattern=(
            r"launch[ _]failed[ _]requeued[ _]held",
            r"Task launch for (?:StepId=)?\S{1,40} failed on node (?P<host>[\w.-]{1,253}): (?P<reason>(?!Can't find an)"
            r"[^\n]{1,100})",
            r"srun: error: (?:Application|task \d{1,7}) launch failed: (?P<reason>(?!Can't find an)[^\n]{1,100})",
        ),
        cause="node-lost",
        variant="launch",
        confidence=LIKELY,
        seen=(
            "SLURM could not start the step on {host}: {reason}",
            "SLURM could not start the step: {reason}",
            "SLURM could not start the job, and holds it",
        ),
        source="slurm src/slurmctld/job_mgr.c, src/api/step_launch.c, src/srun/launch.c",
        sample=(
            "  88121  gpu  fit  mara PD  0:00  2 (launch failed requeued held)",
            "srun: error: Task launch for StepId=88121.0 failed on node gpu-a03: Communication connection failure",
            "srun: error: task 6 launch failed: Job credential expired",
        ),
        counter="srun: launching StepId=88121.0 on host gpu-a03, 4 tasks: [0-3]",
    ),
    Symptom(
        "slurm-requeued",
        pattern=r"(?P<kind>JOB|STEP) (?P<step>\S{1,40}) ON \S{1,253} CANCELLED AT \S{1,30} DUE TO JOB REQUEUE",
        cause="preempted",
        variant="requeued",
        role="consequence",
        confidence=POSSIBLE,
        seen="SLURM put the job back into its queue: its nodes were taken or failed, or somebody asked for it",
        source="slurm src/slurmd/slurmstepd/req.c",
        sample="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO JOB REQUEUE ***",
        counter="slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO TASK FAILURE ***",
    ),
    Symptom(
        "slurm-job-cancelled",
        pattern=r"\*\*\* JOB (?P<step>\S{1,40}) ON \S{1,253} CANCELLED AT \S{1,30} (?:\*\*\*|DUE to SIGNAL Terminated)",
        cause="cancelled",
        role="consequence",
        confidence=POSSIBLE,
        seen="the SLURM job {step} was cancelled from outside: by its user or an administrator (scancel)",
        source="slurm src/slurmd/slurmstepd/req.c",
        sample=(
            "slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 ***",
            "slurmstepd: error: *** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE to SIGNAL Terminated ***",
        ),
        counter="slurmstepd: error: *** STEP 88121.0 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 ***",
    ),
    Symptom(
        "pbs-time-limit",
        pattern=(
            r"PBS: job killed: (?P<what>walltime|cput)[\w ]{0,20} (?P<used>\d+) (?:secs )?exceeded limit "
            r"(?P<limit>\d+)",
            r"\bMOAB_INFO:\s{1,4}job exceeded (?P<what>wallclock) limit",
        ),
        cause="time-limit",
        variant="pbs",
        confidence=PROVED,
        seen=(
            "PBS ended the job at its limit: {what} {used} of {limit} seconds",
            "the scheduler ended the job at its limit of {what} time",
        ),
        source="openpbs src/resmom/mom_main.c, mom_mach.c",
        sample="=>> PBS: job killed: walltime 7214 exceeded limit 7200",
        counter="=>> PBS: job killed: mem 16801234kb exceeded limit 16777216kb",
    ),
    Symptom(
        "pbs-memory-limit",
        pattern=r"PBS: job killed: (?P<what>p?v?mem)[\w ]{0,20} (?P<used>\d+)\w{0,2} exceeded limit "
        r"(?P<limit>\d+\w{0,2})",
        cause="host-out-of-memory",
        variant="limit",
        confidence=PROVED,
        seen="PBS ended the job at its limit of memory: {what} over {limit}",
        source="openpbs src/resmom/mom_mach.c",
        sample="=>> PBS: job killed: mem 16801234kb exceeded limit 16777216kb",
        counter="=>> PBS: job killed: walltime 7214 exceeded limit 7200",
    ),
    Symptom(
        "pbs-processor-limit",
        pattern=r"PBS: job killed: (?P<what>n?cpu\w{0,8}) (?P<used>[\d.]{1,12})[\w ]{0,10} exceeded "
        r"limit (?P<limit>\d+)",
        cause="program-error",
        variant="processors",
        confidence=PROVED,
        seen="PBS ended the job, which used {used} of {limit} ({what})",
        source="openpbs src/resmom/linux/mom_mach.c",
        sample="=>> PBS: job killed: ncpus 17.2 exceeded limit 16 (sum)",
        counter="=>> PBS: job killed: walltime 7214 exceeded limit 7200",
    ),
    Symptom(
        "lsf-time-limit",
        pattern=r"TERM_(?P<what>RUNLIMIT|CPULIMIT|DEADLINE)\b",
        cause="time-limit",
        variant="lsf",
        confidence=PROVED,
        seen="LSF ended the job at its time limit ({what})",
        source="IBM Spectrum LSF bacct(1), termination reasons",
        sample="TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        counter="TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    ),
    Symptom(
        "lsf-memory-limit",
        pattern=r"TERM_(?P<what>MEMLIMIT|SWAP)\b",
        cause="host-out-of-memory",
        variant="limit",
        confidence=PROVED,
        seen="LSF ended the job at its limit of memory ({what})",
        source="IBM Spectrum LSF bacct(1), termination reasons",
        sample="TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        counter="TERM_OWNER: job killed by owner.",
    ),
    Symptom(
        "lsf-preempted",
        pattern=r"TERM_(?P<what>PREEMPT|LOAD|WINDOW|REQUEUE_ADMIN|REQUEUE_OWNER)\b",
        cause="preempted",
        variant="requeued",
        confidence=PROVED,
        seen="LSF took the job's hosts away ({what})",
        source="IBM Spectrum LSF bacct(1), termination reasons",
        sample="TERM_PREEMPT: job killed after preemption.",
        counter="TERM_OWNER: job killed by owner.",
    ),
    Symptom(
        "lsf-cancelled",
        pattern=r"TERM_(?P<what>OWNER|ADMIN|FORCE_OWNER|FORCE_ADMIN)\b",
        cause="cancelled",
        role="consequence",
        confidence=POSSIBLE,
        seen="the LSF job was ended by its owner or an administrator ({what})",
        source="IBM Spectrum LSF bacct(1), termination reasons",
        sample="TERM_OWNER: job killed by owner.",
        counter="TERM_PREEMPT: job killed after preemption.",
    ),
    Symptom(
        "interrupt-caught",
        needle="Keyboard interruption. Exiting from early training",
        cause="cancelled",
        role="consequence",
        confidence=POSSIBLE,
        seen="somebody pressed Ctrl-C, and the program ended by itself",
        source="corenet and cvnets, engine/default_trainer.py",
        sample="2026-03-14 07:04:38 - LOGS    - Keyboard interruption. Exiting from early training",
        counter="Keyboard interruption is not caught here",
    ),
    Symptom(
        "deepspeed-asked",
        pattern=r"\] Main process received (?P<signal>SIG(?:INT|TERM)), exiting",
        cause="cancelled",
        role="consequence",
        confidence=POSSIBLE,
        seen="DeepSpeed's launcher was told to end by {signal} (SIGINT: Ctrl-C; SIGTERM: a scheduler, or kill)",
        source="DeepSpeed launcher/launch.py (sigkill_handler)",
        sample="[2025-08-19 11:40:02,170] [INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting",
        counter="[2025-08-19 11:40:02,170] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 6178",
    ),
    Symptom(
        "spot-taken",
        needle=(
            *("Spot ITN received", "Spot Interruption Warning", "Spot Instance Interruption Warning"),
            *(
                "compute.instances.preempted",
                "Instance was preempted",
                '"EventType": "Preempt"',
                '"EventType":"Preempt"',
            ),
            *("spot/instance-action", "SpotInterruption", "Spot instance interruption notice", "got pre-empted"),
        ),
        pattern=(
            r"Spot ITN received",
            r"Spot (?:Instance )?Interruption Warning",
            r"compute\.instances\.preempted|Instance was preempted",
            r"\"EventType\": ?\"Preempt\"",
            r"spot/instance-action[^\n]{0,80}\"?action\"?: ?\"?(?:terminate|stop|hibernate)",
            r"\bSpotInterruption\b|Spot instance interruption notice|\bNodes of this job got pre-empted\b",
        ),
        cause="preempted",
        variant="spot",
        seen="the cloud took a spot machine of the job back",
        source="aws-node-termination-handler, EC2 event names; Compute Engine audit log; Azure scheduled events",
        sample=(
            "Spot ITN received. Instance will be interrupted at 2025-08-19T11:40:02Z",
            "compute.instances.preempted gpu-a03",
        ),
        counter="listening for spot/instance-action events",
    ),
    Symptom(
        "slurm-table-state",
        needle="NODE_FAIL",
        pattern=ROW + r"(?P<state>NODE_FAIL)(?=\s)",
        cause="node-lost",
        confidence=LIKELY,
        over=OF_ANOTHER,
        seen="SLURM's record of the job says {state}",
        source="sacct(1), job state codes",
        sample="912004   pt-70b-3  NODE_FAIL   0:0  13:20:41   h[101-132]",
        counter="State NODE_FAIL means that a node failed",
    ),
    Symptom(
        "slurm-table-memory",
        needle="OUT_OF_ME",
        pattern=ROW + r"OUT_OF_ME(?:MORY|\+)?(?=\s)",
        cause="host-out-of-memory",
        variant="slurm",
        over=OF_ANOTHER,
        seen="SLURM's record of the job says OUT_OF_MEMORY",
        source="sacct(1), job state codes",
        sample="771230.0     OUT_OF_ME+    0:125 503316120K        c[11-12]",
        counter="OUT_OF_MEMORY is a state",
    ),
    Symptom(
        "slurm-memory-limit-old",
        needle=("exceeded memory limit (", "Exceeded job memory limit"),
        pattern=(
            r"exceeded memory limit \((?P<used>\d+) > (?P<limit>\d+)\), being killed",
            r"Exceeded job memory limit",
        ),
        cause="host-out-of-memory",
        variant="slurm",
        confidence=PROVED,
        seen="the job went over its memory limit, and SLURM ended it",
        source="slurm src/plugins/jobacct_gather/common/common_jag.c, src/slurmd",
        sample="slurmstepd: error: Job 88121 exceeded memory limit (131182144 > 131072000), being killed",
        counter="slurmstepd: error: no memory limit",
    ),
    Symptom(
        "slurm-never-starts",
        needle="DependencyNeverSatisfied",
        cause="scheduler-refused",
        variant="dependency",
        confidence=PROVED,
        seen="the job waits for another one that has failed, and will never start",
        source="slurm src/common/job_state_reason.c",
        sample="33012  batch  fit  ola PD  0:00  8 (DependencyNeverSatisfied)",
        counter="33012  batch  fit  ola PD  0:00  8 (Dependency)",
    ),
    Symptom(
        "slurm-script-refused",
        needle="This does not look like a batch script",
        cause="scheduler-refused",
        variant="script",
        confidence=PROVED,
        seen="the job script's first line names no interpreter",
        source="slurm src/sbatch/sbatch.c",
        sample="sbatch: error: This does not look like a batch script.  The first",
        counter="sbatch: Submitted batch job 88121",
    ),
    Symptom(
        "slurm-script-not-found",
        pattern=r"sbatch: error: Unable to open file (?P<file>[^\n]{1,200})",
        cause="scheduler-refused",
        variant="no-script",
        confidence=PROVED,
        seen="sbatch cannot open the script {file}",
        source="slurm src/sbatch/sbatch.c",
        sample="sbatch: error: Unable to open file fit.sbatch",
        counter="sbatch: Submitted batch job 88121",
    ),
    Symptom(
        "job-not-submitted",
        pattern=(
            r"(?:^|[\s:])(?P<reason>[A-Za-z][^\n:]{3,160}(?:: [^\n]{3,80})?)\. Job not submitted\b",
            r"Unable to run job: (?P<reason>(?![^\n]{0,80}no suitable queues)[^\n]{3,200})",
        ),
        cause="scheduler-refused",
        confidence=PROVED,
        seen="the scheduler did not take the job: {reason}",
        source="LSF bsub (lsb_submit's errors); SGE clients/qsub, libs/japi",
        sample=(
            "gpuq: No such queue. Job not submitted.",
            "Too many processors requested. Job not submitted.",
            'Unable to run job: job rejected: the requested parallel environment "mpi" does not exist.',
        ),
        counter="Unable to run job: error: no suitable queues.",
    ),
    Symptom(
        "queue-refused",
        needle=("Job exceeds queue", "Job violates queue", "no suitable queues"),
        pattern=(
            r"Job (?:exceeds|violates) queue (?:and/or server )?resource limits",
            r"Unable to run job: [^\n]{0,80}no suitable queues",
        ),
        cause="scheduler-refused",
        variant="queue-limits",
        seen="no queue takes the job: it asks for more than the limits of any",
        source="openpbs pbs_error (PBSE_EXCQRESC); SGE qsub",
        sample=(
            "qsub: Job exceeds queue and/or server resource limits",
            "qsub: Job violates queue and/or server resource limits",
            "Unable to run job: error: no suitable queues.",
        ),
        counter="qsub: waiting for job 88121 to start",
    ),
    Symptom(
        "sge-limit",
        needle="qmaster enforced h_rt, h_cpu",
        cause="time-limit",
        confidence=LIKELY,
        seen="SGE ended the job at h_rt, h_cpu or h_vmem",
        source="SGE accounting(5), failed 37",
        sample="failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit",
        counter="failed       0",
    ),
)
