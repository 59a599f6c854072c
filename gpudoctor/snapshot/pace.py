"""What is read of a job that runs, to tell which rank is late: when each rank issued its collectives, where it stands.

Plain data between the nodes and `slow/`, as `evidence` is for `hang`.
"""

from msgspec import Struct

from gpudoctor.named import Address, HostName, Pid
from gpudoctor.snapshot.evidence import GpuUse, Thread, Unread
from gpudoctor.snapshot.holds import CgroupMemory

INSPECTED = " (NCCL's Inspector)"
"""Behind the key of a group whose times its files tell, and no flight recorder."""


class CollectiveTimes(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The collectives of one process group on one rank, the oldest first: as many as its flight recorder holds."""

    group: str
    """Key of the process group, as `evidence.Collective.group`; or of NCCL's communicator (`INSPECTED`)."""
    description: str = ""
    sequences: tuple[int, ...] = ()
    created_ns: tuple[int, ...] = ()
    """When the rank issued each, by its own clock; of what NCCL's Inspector tells, when it ended."""
    kinds: tuple[int, ...] = ()
    """Of each, the place of its name in `names`."""
    names: tuple[str, ...] = ()
    """ "all_reduce [1024]": operation and sizes."""
    ran_ms: tuple[float, ...] = ()
    """How long each ran on the GPU (TORCH_NCCL_ENABLE_TIMING, NCCL's Inspector); 0 where one is not told, () where none
    is."""


class RankTimes(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one rank's flight recorder tells."""

    rank: int
    pid: Pid
    backend: str = ""
    groups: tuple[CollectiveTimes, ...] = ()
    pipelines: tuple[str, ...] = ()
    """Groups in which it sends or receives: their ranks are stages, and come to collectives at times of their own."""
    asked_at: float = 0.0
    """time.time() of its node when it had answered."""


class StackSeen(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The main thread of a process as it stood in so many of the samples."""

    thread: Thread
    count: int = 1


class CpuQuota(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the cgroups of a process grant, the tightest of them."""

    cpus: float
    folder: str
    throttled_seconds: float = 0.0
    """For how long it was held back while it was looked at, all its threads together."""
    throttled_periods: int = 0
    periods: int = 0


class ProcessPace(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A rank or data loader worker that was looked at once a second."""

    pid: Pid
    seconds: float = 0.0
    """From the first look to the last."""
    stacks: tuple[StackSeen, ...] = ()
    main_ran_seconds: float | None = None
    main_delayed_seconds: float | None = None
    """Its main thread was ready to run, and others had the processors."""
    cpu_seconds: float | None = None
    """Of all its threads."""
    cpus_allowed: str = ""
    """As /proc/PID/status lists them: "0-3"."""
    quota: CpuQuota | None = None
    file_looks: int = 0
    """So often was asked whether its main thread waits for a file, and so often it did."""
    file_waits: int = 0
    file: str = ""
    """One that it waited for."""
    memory_waits: int = 0
    """Of `file_looks`, those in which its cgroup did not grant it memory."""
    memory: CgroupMemory | None = None
    lost: bool = False
    """It had ended by the last look."""


class MemoryPeak(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Of a rank, of the machine's own memory."""

    pid: Pid
    peak_bytes: int
    """Most that was resident so far (VmHWM)."""
    limit_bytes: int | None = None
    """Of its cgroup, or the machine's memory."""


class LinkUse(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All connections of this node's ranks from one address to another."""

    local: Address
    peer: Address
    answers_after: float = 0.0
    """Seconds until what is sent is acknowledged (the kernel's smoothed round trip), on the slowest of them."""
    sent: int = 0
    """Segments with data, since they were made."""
    sent_again: int = 0
    busy: float = 0.0
    """Of the time of the look, in which something was under way on the busiest of them."""
    carried: float = 0.0
    """Bytes a second that were acknowledged in the time of the look."""
    held_to: float = 0.0
    """Bytes a second at which it took what it was given, where more waited for it (the kernel's delivery rate, not
    limited by the application); 0: nothing waited for it."""
    reached: float = 0.0
    """The highest delivery rate that was seen."""


class NodePace(Struct, frozen=True, kw_only=True):
    """One node."""

    hostname: HostName = ""
    name: HostName = ""
    """As the fleet names it."""
    clock_offset_seconds: float | None = None
    """Ahead of the head's clock; filled in by the head."""
    clock_uncertainty_seconds: float = 0.0
    ranks: tuple[RankTimes, ...] = ()
    processes: tuple[ProcessPace, ...] = ()
    memory: tuple[MemoryPeak, ...] = ()
    gpus: tuple[GpuUse, ...] = ()
    links: tuple[LinkUse, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def host(self) -> str:
        return self.name or self.hostname or "this node"
