"""torchrun: its rendezvous, its agent, how it tells that processes ended; torch.multiprocessing.spawn.

torchrun's "Root Cause (first observed failure)" is the process that ended first as the agent saw it, which is often one
that waited, and torchrun sends SIGKILL itself to what does not end. So a row of its table is no cause by itself: the
rows are read together (`explain.exits`).
"""

from gpudoctor.symptom import HINT, Symptom


def ended(signals: str) -> tuple[str, ...]:
    """The forms in which torchrun writes that a process ended by one of these signals (a pattern of numbers)."""
    return (
        rf"exitcode\s{{0,6}}: (?P<exitcode>-(?:{signals}))\b\)? ?(?:local_rank: (?P<local_rank>\d+) ?)?\(pid: "
        rf"(?P<pid>\d+)\)",
        rf"Signal (?P<signal>{signals}) \((?P<name>SIG\w+)\) received by PID (?P<pid>\d+)",
    )


EXIT_NEEDLES = ("(exitcode: ", " exitcode  : ", "received by PID ")
AGENT = "torch elastic/multiprocessing"
RENDEZVOUS = "torch elastic/rendezvous"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "elastic-aborted",
        needle=EXIT_NEEDLES,
        pattern=ended("6"),
        role="consequence",
        seen="process {pid} ended itself by SIGABRT: torch's watchdog, or an error in native code that stands before",
        source=AGENT,
        sample=("  exitcode  : -6 (pid: 811)", "  traceback : Signal 6 (SIGABRT) received by PID 811"),
        counter="  exitcode  : -9 (pid: 811)",
    ),
    Symptom(
        "elastic-terminated",
        needle=EXIT_NEEDLES,
        pattern=ended("15|2|1"),
        role="consequence",
        confidence=HINT,
        seen="process {pid} was ended from outside",
        source=AGENT,
        sample=("  exitcode  : -15 (pid: 811)", "  traceback : Signal 15 (SIGTERM) received by PID 811"),
        counter="  exitcode  : -11 (pid: 811)",
    ),
    Symptom(
        "elastic-exit-status",
        needle=("(exitcode: ", " exitcode  : "),
        pattern=r"exitcode\s{0,6}: (?P<exitcode>\d{1,3})\b\)? ?(?:local_rank: (?P<local_rank>\d+) ?)?\(pid: "
        r"(?P<pid>\d+)\)",
        role="consequence",
        seen="process {pid} ended with status {exitcode}",
        source=AGENT,
        sample=(
            "E0819 11:40:02.17 6123 torch/distributed/elastic/multiprocessing/api.py:987] failed (exitcode: 1) "
            "local_rank: 0 (pid: 6177) of binary: /opt/venv/bin/python",
            "  exitcode  : 2 (pid: 6177)",
        ),
        counter="  exitcode  : -9 (pid: 6177)",
    ),
    Symptom(
        "elastic-failed",
        needle=("ChildFailedError", "Root Cause (first observed failure):"),
        role="consequence",
        confidence=HINT,
        seen="torchrun ended because a process had failed; the one that it names may be one that waited",
        source=AGENT + "/errors",
        sample=(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "Root Cause (first observed failure):",
        ),
        counter="Failures: 0",
    ),
    Symptom(
        "elastic-failure-rank",
        pattern=r"\brank\s{1,8}: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)",
        role="context",
        seen="torchrun lists rank {rank} among those that failed",
        source=AGENT + "/errors",
        sample="  rank      : 13 (local_rank: 5)",
        counter="  rank 13 started (local_rank: 5)",
    ),
    Symptom(
        "elastic-program",
        pattern=r"(?P<program>[\w./+@-]{1,400}\.py) FAILED\b",
        role="context",
        seen="torchrun tells that the program {program} failed",
        source=AGENT + "/errors (ChildFailedError.format_msg)",
        sample="train/pretrain.py FAILED",
        counter="train/pretrain.py failed",
    ),
    Symptom(
        "elastic-closing",
        needle=("closing signal SIG", "forcefully exiting via", "forcefully exitting via"),
        pattern=(
            r"Sending process (?P<pid>\d+) closing signal (?P<name>SIG\w+)",
            r"Closing process (?P<pid>\d+) via signal (?P<name>SIG\w+)",
            r"Unable to shutdown process (?P<pid>\d+) via (?P<name>\S{1,20}), forcefully exit",
        ),
        role="consequence",
        confidence=HINT,
        seen="torchrun ends process {pid}, since another one has failed or it was told to",
        source=AGENT + "/api.py",
        sample=(
            "W0819 11:40:02.11 6123 torch/distributed/elastic/multiprocessing/api.py:1029] Sending process 6178 "
            "closing signal SIGTERM",
            "Unable to shutdown process 6178 via SIGTERM, forcefully exiting via SIGKILL",
        ),
        counter="process 6178 closed",
    ),
    Symptom(
        "elastic-signal",
        pattern=(
            r"SignalException: Process (?P<pid>\d+) got signal: (?!1$|1\s|SIGHUP)(?P<name>\w+)",
            r"Received (?!1 |Signals\.SIGHUP)(?P<name>[\w.]+) death signal, shutting down workers",
            r"Got termination signal: (?P<name>\w+)",
        ),
        role="consequence",
        confidence=HINT,
        seen="torchrun was told to end ({name})",
        source=AGENT + ", elastic/agent",
        sample=(
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 6123 got signal: 15",
            "W0819 11:40:02.11 6123 torch/distributed/elastic/agent/server/api.py:753] Received Signals.SIGTERM death "
            "signal, shutting down workers",
        ),
        counter="torch.distributed.elastic.multiprocessing.api.SignalException: Process 6123 got signal: 1",
    ),
    Symptom(
        "elastic-blocked-worker",
        pattern=r"Worker pid=(?P<pid>\d+) stuck in uninterruptible sleep \(D-state\) for (?P<seconds>[\d.]+)s",
        cause="storage-stall",
        seen="process {pid} has waited in the kernel for {seconds} s (state D): storage or a driver does not answer",
        versions="torch >= 2.13",
        source="torch elastic/agent/server/local_elastic_agent.py",
        sample="[trainer] Worker pid=6177 stuck in uninterruptible sleep (D-state) for 61.2s (>= 60.0s); marking "
        "worker group UNHEALTHY and disabling restarts.",
        counter="[trainer] Worker pid=6177 is healthy",
    ),
    Symptom(
        "rendezvous-unreachable",
        needle=(
            "RendezvousConnectionError",
            "The connection to the C10d store has failed",
            "The connection to etcd has failed",
        ),
        unless="has failed to s",
        cause="master-unreachable",
        variant="rendezvous",
        role="connection",
        seen="torchrun could not connect to the rendezvous, or lost it",
        source=RENDEZVOUS + "/c10d_rendezvous_backend.py",
        sample=(
            "[rank1]: torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: a text",
            "RuntimeError: The connection to the C10d store has failed.",
        ),
        counter="The connection to the database has failed",
    ),
    Symptom(
        "rendezvous-timeout",
        pattern=r"RendezvousTimeoutError(?!.{0,40}in \()",
        cause="launcher-world-mismatch",
        variant="torchrun",
        role="connection",
        seen="fewer nodes came to torchrun's rendezvous than --nnodes asks for",
        source=RENDEZVOUS + "/dynamic_rendezvous.py",
        sample="torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        counter="RendezvousSettings(timeout=600)",
    ),
    Symptom(
        "rendezvous-closed",
        needle=("RendezvousClosedError", "RendezvousGracefulExitError", "RendezvousStateError"),
        pattern=r"Rendezvous(?:Closed|GracefulExit|State)Error",
        role="consequence",
        confidence=HINT,
        seen="the rendezvous was closed: a node has failed or ended before",
        source=RENDEZVOUS,
        sample="torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
        counter="Rendezvous complete for workers.",
    ),
    Symptom(
        "rendezvous-heartbeat-failed",
        pattern=r"The node '(?P<host>[^'\n]{1,253})' has failed to (?:send a keep-alive heartbeat|shutdown the "
        r"rendezvous)",
        cause="store-host-exit",
        role="consequence",
        confidence=HINT,
        seen="the node {host} lost the rendezvous, whose host has ended before",
        source=RENDEZVOUS + "/dynamic_rendezvous.py",
        sample="[W1 dynamic_rendezvous.py:1173] The node 'gpu-a04_6123_0' has failed to send a keep-alive heartbeat to "
        "the rendezvous 'run7' due to an error of type RendezvousConnectionError.",
        counter="The node 'gpu-a04_6123_0' has joined round 0 of the rendezvous 'run7' as a participant.",
    ),
    Symptom(
        "elastic-restarts",
        needle=("Worker group FAILED", "Worker group UNHEALTHY", "attempts left; will restart worker group"),
        pattern=r"\[(?P<role>\w{1,40})\] Worker group (?P<state>FAILED|UNHEALTHY)",
        role="consequence",
        confidence=HINT,
        seen="torchrun's agent found a failed process and begins anew",
        source="torch elastic/agent/server/api.py",
        sample="[default] Worker group FAILED. 2/3 attempts left; will restart worker group",
        counter="[default] Worker group successfully finished. Waiting 300 seconds for other agents to finish.",
    ),
    Symptom(
        "elastic-assigned",
        needle="Rendezvous complete for workers",
        role="context",
        seen="torchrun's rendezvous is complete",
        source="torch elastic/agent/server/api.py",
        sample="[default] Rendezvous complete for workers. Result:",
        counter="[default] Rendezvous'ing worker group",
    ),
    Symptom(
        "elastic-world",
        pattern=r"global_world_sizes=\[(?P<size>\d+)",
        role="context",
        seen="torchrun made a world of {size} ranks",
        source="torch elastic/agent/server/api.py",
        sample="  global_world_sizes=[16, 16, 16, 16, 16, 16, 16, 16]",
        counter="  role_world_sizes=[16, 16]",
    ),
    Symptom(
        "spawn-ended",
        needle=("terminated with signal SIG", "terminated with exit code", "terminated with the following error"),
        pattern=(
            r"process (?P<process>\d+) terminated with (?:signal SIG(?:TERM|ABRT|INT|HUP)|exit code \d+)",
            r"-- Process (?P<process>\d+) terminated with the following error",
        ),
        role="consequence",
        seen="spawned process {process} ended; its traceback says why",
        source="torch multiprocessing/spawn.py",
        sample=(
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 1",
            "-- Process 3 terminated with the following error:",
        ),
        counter="torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
    ),
)
