"""Cases of the checks in checks/gpudoctor_checks/host/."""

from typing import Any

from gpudoctor.snapshot import (
    Cgroup,
    KernelLog,
    Limits,
    Snapshot,
    Space,
    UsedPath,
    XidEvent,
    absent,
    missing,
    read,
)
from tests.build import GIB, MIB, but, h100_node, node, rtx_4090_node, t4_node, unread
from tests.build_network import with_rdma
from tests.cases import Case

H100, T4, RTX = h100_node(), t4_node(), rtx_4090_node()
LOG = "host.kernel_log"


def without_gpu(machine: Snapshot | None = None) -> Snapshot:
    """A machine on which NVML has nothing to find."""
    return but(machine or node(()), "nvidia.gpus", absent("/sys/bus/pci/devices", "no NVIDIA GPU on this machine"))


def with_host(machine: Snapshot, **fields: Any) -> Snapshot:
    for name, value in fields.items():
        machine = but(machine, f"host.{name}", read("test", value))
    return machine


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", read("environment of gpudoctor", variables))


def with_paths(*paths: UsedPath) -> Snapshot:
    return with_host(H100, paths=paths)


def space_of(role: str, path: str, *numbers: Any, **fields: Any) -> UsedPath:
    return UsedPath(role, path, read(f"statvfs {path}", Space(*numbers, **fields)))


def limits(**fields: Any) -> Limits:
    unlimited: dict[str, Any] = dict.fromkeys(Limits.__struct_fields__)
    return Limits(**(unlimited | fields))


def logged(*events: XidEvent, machine: Snapshot = H100, **fields: Any) -> Snapshot:
    return with_host(machine, kernel_log=KernelLog(events, **fields))


GONE = UsedPath("HF_HOME", "/nfs/hf", missing("statvfs /nfs/hf", "no answer within 3 s", "timeout"))
SHM_CASES = [
    Case(
        "shm-too-small",
        fires=with_host(H100, shared_memory=Space(64 * MIB, 64 * MIB), container="docker"),
        silent=with_host(RTX, shared_memory=Space(8 * GIB, 8 * GIB)),
        unread=but(H100, "host.shared_memory", unread("statvfs /dev/shm")),
        says=("64 MiB", "8 GPUs want 8 GiB"),
    ),
    Case(
        "shm-too-small",
        fires=with_host(H100, shared_memory=Space(2 * GIB, 2 * GIB)),
        severity="warning",
        commands=("sudo mount -o remount,size=8G /dev/shm",),
    ),
    Case(  # every container without a GPU is made like this
        "shm-too-small",
        fires=with_host(without_gpu(), shared_memory=Space(64 * MIB, 64 * MIB), container="docker"),
        silent=with_host(without_gpu(), shared_memory=Space(2 * GIB, 100 * MIB)),
        unread=but(but(H100, "nvidia.gpus", unread("nvml")), "accelerators.pci", unread("/sys/bus/pci")),
        severity="info",
    ),
    Case(
        "shm-too-small",
        fires=with_host(H100, shared_memory=Space(16 * GIB, 100 * MIB)),
        severity="warning",
        says=("100 MiB free of 16 GiB",),
    ),
    Case(
        "nccl-segments-left",
        fires=with_host(H100, nccl_segments=(("nccl-aB3x9Z", 9637888), ("nccl-q W;rm", 9637888))),
        unread=but(H100, "host.nccl_segments", unread("/dev/shm")),
        severity="info",
        says=("2 NCCL segments", "18.4 MiB"),
        commands=("rm -f /dev/shm/nccl-aB3x9Z",),
    ),
    Case(
        "nccl-segments-left",
        fires=with_host(H100, nccl_segments=tuple((f"nccl-{n:06d}", 16 * MIB) for n in range(100))),
        severity="warning",
    ),
]

WITHOUT_RDMA = with_rdma(H100)  # rdma-memlock-low speaks of machines with RDMA
USER_HOST = with_host(WITHOUT_RDMA, is_root=False)
LIMIT_CASES = [
    Case(
        "memlock-too-low",
        fires=but(
            with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB)),
            "accelerators.kernel_modules",
            read("/proc/modules", ("nvidia", "nvidia_peermem")),
        ),
        # Ubuntu's default, and no sign of RDMA
        silent=with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB)),
        unread=but(H100, "host.limits", unread("getrlimit")),
        severity="warning",
        says=("8 MiB", "nvidia_peermem is loaded"),
        commands=(
            "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n'"
            " | sudo tee /etc/security/limits.d/90-memlock.conf",
        ),
    ),
    Case(
        "memlock-too-low",
        fires=with_host(USER_HOST, limits=limits(memlock_soft_bytes=64 * 1024)),
        # root outside a container is exempt
        silent=with_host(WITHOUT_RDMA, limits=limits(memlock_soft_bytes=64 * 1024)),
        severity="info",
        says=("64 KiB",),
        commands=("ulimit -l unlimited",),
    ),
    Case(  # root inside one is not
        "memlock-too-low",
        fires=with_environment(
            with_host(WITHOUT_RDMA, container="docker", limits=limits(memlock_soft_bytes=64 * 1024)),
            NCCL_IB_HCA="mlx5_0",
        ),
        silent=without_gpu(with_host(USER_HOST, limits=limits(memlock_soft_bytes=64 * 1024))),
        unread=but(with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB)), "environment", unread()),
        severity="warning",
    ),
    Case(
        "open-files-limit-low",
        fires=with_host(H100, limits=limits(open_files_soft=256, open_files_hard=4096)),
        silent=with_host(h100_node(1), limits=limits(open_files_soft=1024, open_files_hard=1048576)),
        unread=but(H100, "host.limits", unread("getrlimit")),
        severity="warning",
        says=("256",),
        commands=("ulimit -n 4096",),
    ),
    Case(
        "open-files-limit-low",
        fires=with_host(H100, limits=limits(open_files_soft=1024, open_files_hard=1048576)),
        silent=without_gpu(with_host(H100, limits=limits(open_files_soft=1024, open_files_hard=1024))),
        severity="info",
        commands=("ulimit -n 65536",),
    ),
    Case(
        "process-limit-low",
        fires=with_host(H100, cgroup=Cgroup(2, pids_limit=1024, pids_used=900)),
        silent=with_host(H100, cgroup=Cgroup(2, pids_limit=2048, pids_used=40)),  # podman's default
        unread=but(H100, "host.cgroup", unread("/sys/fs/cgroup")),
        severity="warning",
        says=("1024", "holds 900", "8 GPUs want 768"),
    ),
    Case(
        "process-limit-low",
        fires=with_host(USER_HOST, limits=limits(processes_soft=200)),
        silent=with_host(H100, limits=limits(processes_soft=200)),  # root's is not applied
        severity="warning",
        commands=("ulimit -u 768",),
    ),
    Case(
        "cgroup-memory-limit-low",
        fires=with_host(H100, cgroup=Cgroup(2, memory_limit_bytes=100 * GIB, memory_used_bytes=99 * GIB)),
        silent=with_host(H100, cgroup=Cgroup(2, memory_limit_bytes=100 * GIB, memory_used_bytes=50 * GIB)),
        unread=but(H100, "host.cgroup", unread("/sys/fs/cgroup")),
        severity="warning",
        says=("99 GiB of its 100 GiB",),
    ),
    Case(
        "cgroup-memory-limit-low",
        fires=with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=16 * GIB, memory_used_bytes=1 * GIB)),
        silent=without_gpu(with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=1 * GIB, memory_used_bytes=100 * MIB))),
        unread=but(with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=GIB)), "nvidia.gpus", unread("nvml")),
        severity="warning",
        says=("16 GiB", "8 ranks want 32 GiB"),
    ),
    Case(
        "cgroup-cpu-limit-low",
        fires=with_host(H100, cgroup=Cgroup(2, cpu_limit=8.0)),
        silent=without_gpu(with_host(H100, cgroup=Cgroup(2, cpu_limit=0.5))),
        unread=but(H100, "host.cgroup", unread("/sys/fs/cgroup")),
        severity="warning",
        says=("8 CPUs", "8 GPUs want 32"),
    ),
    Case(
        "cgroup-cpu-limit-low",
        fires=with_host(h100_node(1), cgroup=Cgroup(2, cpu_limit=2.5)),
        silent=with_host(h100_node(1), cgroup=Cgroup(2, cpu_limit=4.0)),
        severity="info",
        says=("2.5 CPUs",),
    ),
]

MEMORY_CASES = [
    Case(
        "memory-low",
        fires=with_host(H100, memory_available_bytes=9 * GIB),
        silent=with_host(h100_node(1), memory_total_bytes=16 * GIB, memory_available_bytes=4 * GIB),  # a laptop
        unread=but(H100, "host.memory_available_bytes", unread("/proc/meminfo")),
        severity="warning",
        says=("9 GiB", "8 GPUs want 16 GiB"),
    ),
    Case(
        "memory-low",
        fires=with_host(without_gpu(), memory_total_bytes=8 * GIB, memory_available_bytes=200 * MIB),
        silent=with_host(without_gpu(), memory_total_bytes=1 * GIB, memory_available_bytes=500 * MIB),  # a small VM
        severity="warning",
    ),
    Case(
        "swap-in-use",
        fires=with_host(H100, swap_used_bytes=6 * GIB, memory_available_bytes=40 * GIB),
        silent=with_host(H100, swap_used_bytes=6 * GIB),  # idle pages, and memory is free
        unread=but(H100, "host.swap_used_bytes", unread("/proc/meminfo")),
        severity="warning",
        says=("6 GiB lie in swap", "40 GiB of 2 TiB"),
    ),
    Case(
        "process-killed-by-oom",
        fires=logged(oom_kills=("python3", "python3", "Xorg")),
        unread=but(H100, LOG, unread("/dev/kmsg")),
        severity="warning",
        says=("python3 (2 times) and Xorg",),
    ),
    Case("process-killed-by-oom", fires=logged(oom_kills=("chrome",)), severity="info"),
]

TIB = 1024 * GIB
PATH_CASES = [
    Case(
        "disk-space-low",
        fires=with_paths(
            space_of("TMPDIR", "/tmp", 200 * GIB, 9 * GIB, 100, 50, filesystem="ext4"),
            space_of("HF_HOME", "/my data/hf", 200 * GIB, 9 * GIB, 100, 50, filesystem="ext4"),
        ),
        # 5 % of a large store, and an image that is full by nature
        silent=with_paths(
            space_of("HF_HOME", "/store", 100 * TIB, 5 * TIB),
            space_of("TORCH_HOME", "/snap/models", 10 * GIB, 0, writable=False),
        ),
        unread=with_paths(GONE),
        severity="warning",
        says=("9 GiB of 200 GiB", "TMPDIR (/tmp) and HF_HOME (/my data/hf)"),
        commands=("du -xh --max-depth=2 '/my data/hf' | sort -rh | head",),
    ),
    Case("disk-space-low", fires=with_paths(space_of("TMPDIR", "/tmp", 200 * GIB, 100 * MIB), GONE)),
    Case(
        "inodes-low",
        fires=with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 60_000_000, 20_000), GONE),
        # btrfs counts none
        silent=with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 0, 0, filesystem="btrfs")),
        unread=with_paths(GONE),
        severity="warning",
        says=("20000 of 60000000",),
        commands=("du -x --inodes --max-depth=3 /tmp | sort -rn | head",),
    ),
    Case("inodes-low", fires=with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 60_000_000, 0))),
    Case(
        "path-unwritable",
        fires=with_paths(GONE, space_of("TMPDIR", "/scratch/me", GIB, GIB, writable=False)),
        unread=with_paths(GONE),
        says=("/scratch/me (TMPDIR)",),
        commands=("ls -ld /scratch/me", "findmnt -T /scratch/me"),
    ),
    Case(
        "path-unwritable",
        fires=with_paths(space_of("HF_HOME", "/models", GIB, GIB, writable=False)),
        severity="warning",
    ),
    Case(
        "path-unwritable", fires=with_paths(space_of("working folder", "/", GIB, GIB, writable=False)), severity="info"
    ),
    Case(
        "path-unwritable",
        fires=with_paths(UsedPath("TMPDIR", "/scratch/job 7", missing("statvfs", "no such folder"))),
        severity="warning",
        commands=("mkdir -p '/scratch/job 7'",),
    ),
    Case(
        "path-unresponsive",
        fires=with_paths(GONE, space_of("TMPDIR", "/tmp", GIB, GIB)),
        silent=with_paths(UsedPath("HF_HOME", "/x", missing("statvfs /x", "permission denied", "denied"))),
        unread=but(H100, "host.paths", unread("environment")),
        says=("/nfs/hf (HF_HOME)", "no answer within 3 s"),
    ),
]

CASES = [*SHM_CASES, *LIMIT_CASES, *MEMORY_CASES, *PATH_CASES]
