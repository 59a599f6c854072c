"""States that tools print in tables and lists, of which some stop a job: of ports, nodes, pods, jobs, file systems,
memory, processes and GPUs. Asked of a text that shows neither a job nor an error: whoever pastes it asks about them.

Forms, by the tools: nvidia-smi (tables, -q, --query, nvlink -s), dcgmi, ibstat, ibstatus, rdma, ip, ethtool, ping, nc;
sinfo, squeue, sacct, scontrol (the names of states and reasons are slurm's own: job_state_string, node_state_string,
job_state_reason_string), bjobs, qstat, kubectl get (Kubernetes' pod phases and container reasons), helm, ray status;
df, quota, mount, ceph, free, ps, ulimit, lspci, nccl-tests' last lines.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import AFTER, MEMORY, NAN, STORAGE, own
from gpudoctor.explain.report import Line
from gpudoctor.knowledge.schedulers.slurm_words import of_reason
from gpudoctor.lazy import lazy_re

NODE_AWAY, GPU_LOST = own("node-lost", "node", "elsewhere"), own("device-lost", "node", "elsewhere")
LINK = own("rdma", "node", "elsewhere")
FULL = own("disk-full", "node")


class State(NamedTuple):
    row: re.Pattern[str]
    judged: Judged
    says: str
    """What the row means for a job."""
    below: re.Pattern[str] | None = None
    """A heading that must stand above the row."""


def _state(row: str, judged: Judged, says: str, below: str = "") -> State:
    return State(re.compile(row), judged, says, re.compile(below) if below else None)


OF_NODES = r"\bNODELIST\b|\bNodeName=|\bREASON\s+USER\b"
OF_JOBS = r"\bJobID\b|\bJOBID\b|\bJobId=|\bjob-ID\b"
OF_PODS = r"\bREADY\s+STATUS\b"
OF_DF = r"\bUse%|\bIUse%|\bCapacity\b"
NO_LINK = "a network interface has no link"
LINKED = lazy_re(r": <(?![^>]*\bLOOPBACK\b)[^>]*\bLOWER_UP\b")
"""ip link, of an interface that has one: beside it, one without a cable is no fault."""
PENDING = lazy_re(
    r"\sPD\s[^\n]{0,160}\((?P<reason>(?!None\b|null\b)[A-Z][^()\n]{2,120}(?:\([^)\n]{0,60}\))?[^()\n]{0,60})\)\s*$"
    r"|\((?P<bare>(?:QOS|Assoc|MaxGRES)\w{2,60}|ReqNodeNotAvail[^)\n]{0,200}|Partition\w{3,40}|Resources|Priority|"
    r"Dependency\w{0,20}|Nodes required for job[^)\n]{0,120}|BadConstraints|JobHeld\w{2,10}|Licenses|BeginTime|"
    r"Reservation\w{0,20}|InvalidAccount|InvalidQOS|launch failed requeued held)\)"
    r"|\bJobState=PENDING Reason=(?P<told>(?!None\b)\w[\w,:]{2,80})"
)
"""squeue's row of a job that waits, and scontrol's: see squeue(1), JOB REASON CODES."""
IN_ITS_LOG = "(kubectl logs --previous)"
"""Nothing is guessed of a class, or a fix, where it stands elsewhere what failed."""
STATES: tuple[State, ...] = (
    # GPUs and their links
    _state(r"\bERR!|\[(?:Unknown Error|GPU is lost|GPU requires reset)\]", GPU_LOST, "a GPU no longer answers"),
    _state(r"\(rev ff\)", GPU_LOST, "a device has fallen off the PCI bus"),
    _state(r"(?i)\bLink \d{1,2}: <?inactive\b", GPU_LOST, "an NVLink is inactive"),
    _state(
        r"(?i)\bremapping failure occurred\s*: yes|\bpending\s*: yes|\bdouble bit ecc\s*: [1-9]"
        r"|\buncorrectable error\s*: [1-9]",
        GPU_LOST,
        "a GPU's memory has errors that could not be corrected",
    ),
    _state(
        r"\|[^|\n]{2,40}\|\s*(?:Fail|Failure)\b",
        GPU_LOST,
        "a diagnostic of the GPUs failed",
        r"(?i)dcgm"
        r"|diagnostic|health|\bHardware\b|\bMetadata\b|Pass",
    ),
    _state(
        r"\b(?:HW (?:(?:Thermal|Power Brake) )?|SW Thermal )Slowdown\s*: Active",
        own("slow-rank", "node", "elsewhere"),
        "a GPU's clocks are held down",
    ),
    # ports and ways
    _state(
        r"(?i)\b(?:phys(?:ical)? )?state: {0,4}\t{0,4}\s{0,8}(?:\d: )?(?:down|polling|disabled|init(?:ializing)?"
        r"|sleep)\b",
        LINK,
        "an InfiniBand or RoCE port is not active",
    ),
    _state(
        r"\bstate (?:DOWN|INIT|ARMED) physical_state\b|\bphysical_state (?:DISABLED"
        r"|POLLING)\b",
        LINK,
        "an InfiniBand or RoCE port is not active",
    ),
    _state(
        r"<NO-CARRIER,|^\s*Link detected: no\b|\bmtu \d{3,5}\b[^\n]{0,60}\bstate DOWN\b",
        Judged("route", "node", "elsewhere"),
        NO_LINK,
    ),
    _state(
        r"\b100% packet loss\b|\bDestination Host Unreachable\b", Judged("route", "fabric"), "a host does not answer"
    ),
    _state(r"\bmessage too long, mtu=\d", Judged("route", "fabric", AFTER), "packets of that size do not pass"),
    _state(
        r"\bport \d{1,5} \(tcp\) timed out\b"
        r"|\bfiltered\b",
        Judged("firewall", "fabric"),
        "a port does not answer: packets are dropped on the way",
    ),
    # nodes, jobs and pods
    _state(
        r"\s(?:down|drain(?:ed|ing)?|drng|fail(?:ing)?|no_respond|unk"
        r"|boot_fail)[*~#$@%^-]{0,2}\s",
        NODE_AWAY,
        "a node is not in service",
        OF_NODES,
    ),
    _state(r"\bState=\S{0,40}(?:DOWN|DRAIN|FAIL|NOT_RESPONDING|INVALID_REG)", NODE_AWAY, "a node is not in service"),
    _state(
        r"^(?:Not responding|Node unexpectedly rebooted|Kill task failed|Prolog error|Epilog error|Low \w"
        r"|gres/)\b",
        NODE_AWAY,
        "a node is not in service",
        OF_NODES,
    ),
    _state(r"\s(?:NotReady|Unknown)(?:,SchedulingDisabled)?\s", NODE_AWAY, "a node is not ready", r"\bROLES\b"),
    _state(r"\s(?:OUT_OF_ME\+|OUT_OF_MEMORY)\s|\sOOMKilled\s", MEMORY, "it was killed for want of memory"),
    _state(r"\sTIMEOUT\s", Judged("time-limit", "scheduler", "as it is"), "its time was used up", OF_JOBS),
    _state(r"\sNODE_FAIL\s|\sBOOT_FAIL\s|\bJobState=(?:NODE_FAIL|BOOT_FAIL)\b", NODE_AWAY, "its node failed"),
    _state(
        r"\sPREEMPTED\s|\bJobState=PREEMPTED\b"
        r"|\sPreempted\s",
        Judged("preempted", "scheduler", "as it is"),
        "it was taken away for another job",
    ),
    _state(
        r"\sCANCELLED(?:\+|\s+by\s+\d{1,9}"
        r"|\s)",
        Judged("user-interrupt", "user", "as it is"),
        "it was cancelled",
        OF_JOBS,
    ),
    _state(r"\s0:9\b|\sFAILED\s+\d{1,3}:9\b", Judged("signal", "program"), "it was killed by SIGKILL", OF_JOBS),
    _state(r"\s0:(?:7|11|6|8|4)\b|\sFAILED\s+0:\d", Judged("signal", "program"), "a signal ended it", OF_JOBS),
    _state(
        r"\bReason=NonZeroExitCode\b[^\n]{0,200}|\sFAILED\s"
        r"|\sEXIT\s",
        Judged("exception", "program"),
        "its program ended with a failure",
        OF_JOBS,
    ),
    _state(PENDING.pattern, Judged("scheduler", "scheduler"), "the job waits, for the reason that is told"),
    _state(
        r"\sEqw\s",
        Judged("scheduler", "scheduler"),
        "the job is in an error state (qstat -explain E tells why)",
        OF_JOBS,
    ),
    _state(r"\sEvicted\s", Judged("preempted", "scheduler"), "a pod was evicted", OF_PODS),
    _state(
        r"\s(?:ImagePullBackOff|ErrImagePull|InvalidImageName"
        r"|ErrImageNeverPull)\s",
        Judged("image", "environment"),
        "the image is not pulled",
        OF_PODS,
    ),
    _state(
        r"\s(?:Init:)?(?:Error|CrashLoopBackOff)\s"
        r"|\sInit:\d+/\d+\s",
        Judged("exception", "program"),
        f"a container ended with a failure, or its pod does not start; its log {IN_ITS_LOG} tells why",
        OF_PODS,
    ),
    _state(  # of the object itself: PodStatus, ContainerStateTerminated
        r"^[\s-]*\"?(?:reason\"?: \"?(?:Error|ContainerCannotRun)|phase\"?: \"?Failed|exitCode\"?: [1-9]\d{0,2})"
        r"\"?,?\s",
        Judged("exception", "program"),
        f"a container ended with a failure; its log {IN_ITS_LOG} tells why",
    ),
    _state(
        r"\s(?:ContainerStatusUnknown|Terminating|NodeLost"
        r"|Unknown)\s",
        NODE_AWAY,
        "a pod's node does not answer",
        OF_PODS,
    ),
    _state(
        r"\sPending\s", Judged("scheduler", "scheduler"), "a pod has no node yet (kubectl describe tells why)", OF_PODS
    ),
    _state(r"^STATUS: failed\b", Judged("config", "user"), "the release failed"),
    _state(r"\bRaylet\w{0,20}Error\b|\bRecent failures:\s*$\n?\s*\d", NODE_AWAY, "a node of the Ray cluster was lost"),
    # room and memory
    _state(
        r"\s100%\s+/dev/shm\b|^(?:shm"
        r"|tmpfs)\s[^\n]{0,60}\s100%\s",
        own("shared-memory", "environment"),
        "/dev/shm is full",
        OF_DF,
    ),
    _state(r"\s(?:100|99)%\s+\S", FULL, "a file system is full", OF_DF),
    _state(
        r"\s\d{1,16}\*\s+\d{1,16}\s+\d{1,16}\b", own("quota", "environment"), "a quota is used up", r"(?i)\bquota\b"
    ),
    _state(r"\bHEALTH_ERR\b|\bfull osd\b", STORAGE, "the storage cluster is not healthy"),
    _state(r"\((?:ro|ro,[^)\n]{0,200})\)\s*$", STORAGE, "a file system is mounted read-only", r"\bmount\b|\bon /"),
    _state(
        r"^Mem:\s+(?P<all>\d+)(?:Gi|Mi|G|M)?\s+\d+(?:Gi|Mi|G|M)?\s+(?:[0-3])(?:\.\d)?(?:Gi"
        r"|G)?\s+\d[\d.]*\w{0,2}\s+\d[\d.]*\w{0,2}\s+[0-4](?:\.\d)?(?:Gi"
        r"|G)?\s*$",
        MEMORY,
        "the machine's memory is used up",
        r"\bavailable\b",
    ),
    _state(r"\boom_kill [1-9]", MEMORY, "the kernel killed a process for want of memory"),
    _state(
        r"\sD[sl<+N]{0,3}\s+(?:nfs|rpc|lustre|cl_|ll_|ptlrpc|fuse|ceph|cifs|xfs|ext4|jbd2|io_schedule"
        r"|wait_on_page|gpfs)\w{0,40}",
        STORAGE,
        "a process waits in the kernel for a file system",
    ),
    _state(
        r"^(?:\S{0,60} )?\d{1,5}\s*$",
        own("limits", "environment"),
        "so little memory may be locked (RDMA wants unlimited)",
        r"\bulimit -l\b",
    ),
    # programs' own
    _state(
        r"^# Out of bounds values : [1-9]\d{0,9} FAILED",
        own("device-lost", "node", "elsewhere"),
        "the collectives' results are wrong",
    ),
    _state(
        r"^(?![^\n]{0,200}(?:best|min|lowest)_\w{0,40}['\"]?\s?[:=]\s?inf)"
        r"[^\n]{0,2000}?(?:^|[,\s])(?:nan|NaN|-?inf)(?! iterations?: {0,4}0\b)(?:[,\s]|$)",
        NAN,
        "the loss is no number",
        r"(?i)loss",
    ),
)
"""The first that fits says most: rows of a special kind stand before general ones."""


class SeenState(NamedTuple):
    line: Line
    judged: Judged
    says: str


OF_A_JOB = lazy_re(r"^\s{0,18}(?P<id>\d{2,12})(?:[_.]\S{1,20})?\s")
RUNS = lazy_re(r"\s(?:RUNNING|COMPLETED|R|CG)\s+(?:\d|0:0\b)|\s(?:RUNNING|COMPLETED)\s")
"""squeue's and sacct's row of a job that runs, or has ended well."""


def _is_old(row: str, rows_behind: Sequence[Line]) -> bool:
    """sacct tells of a later job that it runs, or has ended well."""
    job = OF_A_JOB.match(row)
    later = (each for each in (OF_A_JOB.match(line.text) for line in rows_behind) if each is not None)
    return job is not None and any(each["id"] != job["id"] and RUNS.search(each.string) for each in later)


def stops_a_job(lines: Sequence[Line]) -> SeenState | None:
    """The first state, in the order of the table, that one of these lines shows. A node that is away is none
    beside a job that runs, nor the end of a job beside a later one that runs."""
    linked = any(LINKED.search(line.text) for line in lines)
    runs = any(OF_A_JOB.match(line.text) and RUNS.search(line.text) for line in lines)
    for state in STATES:
        headed = state.below is None
        for index, line in enumerate(lines):
            headed = headed or state.below.search(line.text) is not None if state.below else True
            if not headed or not state.row.search(f"{line.text} ") or (state.judged == NODE_AWAY and runs):
                continue
            if state.says == NO_LINK and linked:
                continue
            waits = state.judged.kind == "scheduler"
            if not RUNS.search(f"{line.text} ") and (waits or not _is_old(line.text, lines[index + 1 :])):
                return _with_its_reason(SeenState(line, state.judged, state.says))
    return None


def is_a_row(text: str) -> bool:
    """Of a job that waits: no message."""
    return PENDING.search(text) is not None


def _with_its_reason(seen: SeenState) -> SeenState:
    """What SLURM's reason means."""
    match = PENDING.search(seen.line.text)
    meant = of_reason(match["reason"] or match["told"] or match["bare"]) if match else None
    if meant is None:
        return seen
    judged = own("scheduler", "user") if meant.for_good else seen.judged
    return SeenState(seen.line, judged, f"the job waits: {meant.says}")
