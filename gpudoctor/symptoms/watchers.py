"""What watches processes says of their end: systemd, the kernel's watchdogs, parents in Lightning, Ray and vLLM."""

from gpudoctor.symptom import HINT, LIKELY, PROVED, Symptom

UNIT = r"(?<![\w@.\\:-])(?P<unit>(?!nvidia-fabricmanager)[\w@.\\:-]{1,120}): "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "systemd-out-of-memory",
        needle=("has been killed by the OOM killer", "Failed with result 'oom-kill'"),
        pattern=(
            r"(?P<unit>[\w@.\\:-]{1,120}): A process of this unit has been killed by the OOM killer",
            r"(?P<unit>[\w@.\\:-]{1,120}): Failed with result 'oom-kill'",
        ),
        cause="host-out-of-memory",
        confidence=PROVED,
        seen="the kernel's OOM killer ended a process of {unit}",
        source="systemd src/core/unit.c (unit_log_failure), scope.c, service.c",
        sample=(
            "systemd[1]: train.service: A process of this unit has been killed by the OOM killer.",
            "systemd[1]: train.service: Failed with result 'oom-kill'.",
        ),
        counter="systemd[1]: train.service: Failed with result 'exit-code'.",
    ),
    Symptom(
        "systemd-ended",
        pattern=(
            UNIT + r"Main process exited, code=(?:exited, status=(?P<exitcode>[1-9]\d{0,2})|"
            r"(?:killed|dumped), status=(?P<signal>\d{1,2}))/",
            UNIT + r"Failed with result '(?P<result>exit-code|signal|core-dump|timeout|watchdog|protocol|"
            r"resources|start-limit-hit)'",
        ),
        role="consequence",
        confidence=HINT,
        seen="systemd tells that the main process of {unit} ended",
        source="systemd src/core/service.c (service_sigchld_event), unit.c",
        sample=(
            "systemd[1]: train.service: Main process exited, code=killed, status=9/KILL",
            "systemd[1]: train.service: Main process exited, code=exited, status=203/EXEC",
        ),
        counter="systemd[1]: train.service: Main process exited, code=exited, status=0/SUCCESS",
    ),
    Symptom(
        "kernel-lockup",
        pattern=(
            r"BUG: soft lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s",
            r"Watchdog detected hard LOCKUP on cpu (?P<cpu>\d+)",
            r"rcu: INFO: rcu_\w+ (?:self-)?detected stalls? on CPU",
            r"Kernel panic - not syncing: (?P<reason>[^\n]{1,120})",
        ),
        cause="node-lost",
        confidence=LIKELY,
        seen=(
            "a processor of the node hangs in the kernel (CPU {cpu}, lockup)",
            "the kernel of the node panicked: {reason}",
            "the kernel of the node tells that a processor hangs (lockup)",
        ),
        source="Linux kernel/watchdog.c, kernel/watchdog_perf.c, kernel/rcu/tree_stall.h, kernel/panic.c",
        sample=(
            "watchdog: BUG: soft lockup - CPU#12 stuck for 23s! [nv_queue:1200]",
            "rcu: INFO: rcu_sched self-detected stall on CPU",
        ),
        counter="watchdog: BUG: no lockup",
    ),
    Symptom(
        "gpu-off-the-bus-in-lines",
        needle=("NVRM: fallen off the bus and is not responding", "has fallen off the bus and is not responding"),
        cause="xid-gpu-lost",
        variant="reboot",
        confidence=PROVED,
        seen="a GPU has fallen off the bus: the driver does not reach it any more",
        source="NVIDIA open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c (nv_pci_probe)",
        sample="               NVRM: fallen off the bus and is not responding to commands.",
        counter="NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
    ),
    Symptom(
        "lightning-child-ended",
        pattern=r"(?:\[rank: (?P<rank>\d{1,6})\] )?Child process with PID (?P<pid>\d+) terminated with code "
        r"(?P<exitcode>-?\d+)\. Forcefully",
        cause="rank-died",
        seen="Lightning's child {pid} of rank {rank} ended with {exitcode}",
        source="Lightning fabric/strategies/launchers/subprocess_script.py (_ChildProcessObserver)",
        sample="[rank: 1] Child process with PID 9487 terminated with code -9. Forcefully terminating all other "
        "processes to avoid zombies",
        counter="[rank: 1] Child process with PID 9487 started",
    ),
    Symptom(
        "vllm-worker-died",
        pattern=r"(?:Worker proc (?P<name>[\w-]{1,60})|RayWorkerProc rank=\[?(?P<rank>\d+)[^\n]{0,40}) died "
        r"unexpectedly, shutting down executor",
        cause="rank-died",
        confidence=LIKELY,
        seen=("vLLM's worker {name} ended without a word", "vLLM's worker of rank {rank} ended without a word"),
        source="vLLM v1/executor/multiproc_executor.py, ray_executor_v2.py (monitor_workers)",
        sample="ERROR 11-21 23:27:12 [multiproc_executor.py:149] Worker proc VllmWorker-2 died unexpectedly, shutting "
        "down executor.",
        counter="Worker proc VllmWorker-2 started",
    ),
    Symptom(
        "ray-no-node-fits",
        pattern=r"No available node types can fulfill resource requests? (?:defaultdict\(<class 'float'>, )?"
        r"(?P<request>\{[^\n}]{1,160}\})",
        cause="scheduler-refused",
        variant="ray",
        confidence=LIKELY,
        seen="no node of the Ray cluster can give {request}: the workers are not started",
        source="ray autoscaler/_private/event_summarizer.py, autoscaler.py; autoscaler/v2/event_logger.py",
        sample=(
            "(autoscaler +24s) Error: No available node types can fulfill resource request {'GPU': 8.0, 'CPU': "
            "8.0}. Add suitable node types to this cluster to resolve this issue.",
            "(autoscaler +41s) Error: No available node types can fulfill resource request defaultdict(<class "
            "'float'>, {'CPU': 4.0, 'GPU': 4.0}). Add suitable node types to this cluster to resolve this issue.",
        ),
        counter="(autoscaler +24s) Adding 1 node(s) of type gpu.",
    ),
    Symptom(
        "loss-not-finite",
        pattern=(
            r"(?i:\bloss) is (?P<value>nan|-?inf|tensor\(nan[^\n)]{0,40}\)), stopping training",
            r"Minimum loss scale reached \([\d.e-]+\)\. Your loss is probably exploding",
            r"Current loss scale already at minimum - cannot decrease scale anymore",
            r"Unexpected result (?P<value>nan|inf) \(message='found (?:NaN|Inf)",
        ),
        cause="program-error",
        variant="diverged",
        seen=(
            "the loss became {value}, and the program ended itself",
            "each step overflows until the loss scale is at its minimum: the training diverged",
        ),
        source="DETR and MAE engine.py; fairseq optim/dynamic_loss_scaler.py; DeepSpeed runtime/fp16/loss_scaler.py; "
        "Megatron-LM core/rerun_state_machine.py",
        sample=(
            "Loss is nan, stopping training",
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        ),
        counter="Loss is 2.31, going on",
    ),
)
