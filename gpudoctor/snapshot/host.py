"""The machine under the GPUs (read/host.py and its neighbours)."""

from typing import Literal

from gpudoctor.named import Address, HostName, LoggedAddress, PciAddress, Version
from gpudoctor.snapshot.reading import NOT_IN_SNAPSHOT, Reading
from gpudoctor.snapshot.section import Section


class Limits(Section, frozen=True):
    """Resource limits of the doctor's process (what a child of this shell gets); None is unlimited."""

    memlock_soft_bytes: int | None
    memlock_hard_bytes: int | None
    open_files_soft: int | None
    open_files_hard: int | None
    processes_soft: int | None


class Cgroup(Section, frozen=True):
    """Limits of the doctor's cgroup and its ancestors, the tightest of each; None is unlimited."""

    version: Literal[1, 2]
    memory_limit_bytes: int | None = None
    memory_used_bytes: int | None = None
    cpu_limit: float | None = None
    """CPUs' worth of quota."""
    pids_limit: int | None = None
    pids_used: int | None = None


class Space(Section, frozen=True):
    """Size of a file system, in bytes and inodes (total_inodes 0: the file system does not count them)."""

    total_bytes: int
    free_bytes: int
    """Free to this user."""
    total_inodes: int = 0
    free_inodes: int = 0
    filesystem: str = ""
    """Type from /proc/self/mounts ("ext4", "nfs4", "tmpfs"); empty when unknown."""
    writable: bool = True


class UsedPath(Section, frozen=True):
    """A folder that training writes to, why (the variable or default that names it), and its file system."""

    role: str
    path: str
    space: Reading[Space] = NOT_IN_SNAPSHOT


class ToldTrouble(Section, frozen=True):
    """A line in which a program beside the tools tells of a failure; `symptom` and `cause` as `explain` has them."""

    symptom: str
    cause: str
    variant: str
    seen: str
    """What the line says, in our words."""
    values: dict[str, str]
    line: str


class StuckProcess(Section, frozen=True):
    """A process in state D (uninterruptible sleep) or Z (zombie) that has to do with a GPU or Python."""

    pid: int
    name: str
    state: Literal["D", "Z"]
    waits_in: str = ""
    """Kernel function from /proc/PID/wchan; empty when not readable."""
    parent_pid: int = 0
    age_seconds: float | None = None


class XidEvent(Section, frozen=True):
    """An NVIDIA error from the kernel log: Xid (GPU) or SXid (NVSwitch)."""

    code: int
    pci_bus_id: LoggedAddress
    message: str
    is_switch: bool = False
    seconds_ago: float | None = None
    fatal: bool | None = None
    """SXid lines say "Fatal" or "Non-fatal"; None for Xids."""


class LinkLimit(Section, frozen=True):
    """A kernel log line that says a PCIe device runs below its capability ("limited by")."""

    pci_bus_id: LoggedAddress
    message: str


class KernelLog(Section, frozen=True):
    """What the kernel log holds of GPUs since boot (or as far back as it reaches)."""

    events: tuple[XidEvent, ...] = ()
    link_limits: tuple[LinkLimit, ...] = ()
    oom_kills: tuple[str, ...] = ()
    """Names of the processes that the kernel's OOM killer ended."""


class AcsBridge(Section, frozen=True):
    """A PCI bridge and whether ACS source validation or request redirect is on (either bends P2P through the CPU)."""

    bus_id: PciAddress
    redirects: bool


class Host(Section, frozen=True):
    """The machine under the GPUs."""

    hostname: Reading[HostName] = NOT_IN_SNAPSHOT
    hostname_addresses: Reading[tuple[Address, ...]] = NOT_IN_SNAPSHOT
    """What its own hostname resolves to, in getaddrinfo's order; () when it does not resolve."""
    system: Reading[str] = NOT_IN_SNAPSHOT
    """"Linux", "Darwin", "Windows"."""
    kernel_release: Reading[str] = NOT_IN_SNAPSHOT
    distribution: Reading[str] = NOT_IN_SNAPSHOT
    architecture: Reading[str] = NOT_IN_SNAPSHOT
    virtualization: Reading[str] = NOT_IN_SNAPSHOT
    """"none" (bare metal), "kvm", "vmware", "hyperv", "xen", "firecracker", "gvisor", "wsl2", or "vm" when unnamed."""
    container: Reading[str] = NOT_IN_SNAPSHOT
    """"none", "docker", "podman", "kubernetes", "singularity", "enroot", "lxc", or "container" when unnamed."""
    private_pid_namespace: Reading[bool] = NOT_IN_SNAPSHOT
    is_root: Reading[bool] = NOT_IN_SNAPSHOT
    uptime_seconds: Reading[float] = NOT_IN_SNAPSHOT

    cpu_model: Reading[str] = NOT_IN_SNAPSHOT
    cpus: Reading[int] = NOT_IN_SNAPSHOT
    """Online logical CPUs."""
    cpus_allowed: Reading[tuple[int, ...]] = NOT_IN_SNAPSHOT
    """CPUs that this process may run on (affinity mask)."""
    cpu_governors: Reading[dict[str, int]] = NOT_IN_SNAPSHOT
    """Governor -> number of CPUs; absent where the kernel offers no frequency scaling (most VMs)."""
    numa_nodes: Reading[dict[int, tuple[int, ...]]] = NOT_IN_SNAPSHOT
    """NUMA node -> its CPUs."""
    memory_total_bytes: Reading[int] = NOT_IN_SNAPSHOT
    memory_available_bytes: Reading[int] = NOT_IN_SNAPSHOT
    swap_total_bytes: Reading[int] = NOT_IN_SNAPSHOT
    swap_used_bytes: Reading[int] = NOT_IN_SNAPSHOT

    limits: Reading[Limits] = NOT_IN_SNAPSHOT
    cgroup: Reading[Cgroup] = NOT_IN_SNAPSHOT
    shared_memory: Reading[Space] = NOT_IN_SNAPSHOT
    """/dev/shm."""
    nccl_segments: Reading[tuple[tuple[str, int], ...]] = NOT_IN_SNAPSHOT
    """Leftover /dev/shm/nccl-* files that no live process maps: (name, bytes)."""
    paths: Reading[tuple[UsedPath, ...]] = NOT_IN_SNAPSHOT

    clock_synchronised: Reading[bool] = NOT_IN_SNAPSHOT
    """adjtimex(2): false when the kernel says STA_UNSYNC."""
    clock_error_seconds: Reading[float] = NOT_IN_SNAPSHOT
    """adjtimex's maximum error."""
    clock_offset_seconds: Reading[float] = NOT_IN_SNAPSHOT
    """How far this clock is ahead of its time source (negative: behind), as chrony, ntpd or the kernel tells it."""
    kernel_command_line: Reading[str] = NOT_IN_SNAPSHOT
    iommu_group_types: Reading[dict[str, int]] = NOT_IN_SNAPSHOT
    """/sys/kernel/iommu_groups/*/type -> number of groups; {} when the IOMMU is off."""
    acs_bridges: Reading[tuple[AcsBridge, ...]] = NOT_IN_SNAPSHOT
    fabric_manager: Reading[Version] = NOT_IN_SNAPSHOT
    """Version of a running nv-fabricmanager; "running" when its version is unknown; "" when none runs."""
    stuck_processes: Reading[tuple[StuckProcess, ...]] = NOT_IN_SNAPSHOT
    kernel_log: Reading[KernelLog] = NOT_IN_SNAPSHOT
