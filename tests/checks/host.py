"""Cases of the checks in checks/gpudoctor_checks/host/."""

from typing import Any

from gpudoctor.snapshot import Cgroup, KernelLog, Limits, Snapshot, Space, UsedPath, XidEvent, absent, missing, read
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import GIB, MIB, but, h100_node, node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import with_rdma

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
    error(
        "shm-too-small",
        with_host(H100, shared_memory=Space(64 * MIB, 64 * MIB), container="docker"),
        "64 MiB",
        "8 GPUs want 8 GiB",
    ),
    warning(
        "shm-too-small",
        with_host(H100, shared_memory=Space(2 * GIB, 2 * GIB)),
        runs="sudo mount -o remount,size=8G /dev/shm",
    ),
    # every container without a GPU is made like this
    info("shm-too-small", with_host(without_gpu(), shared_memory=Space(64 * MIB, 64 * MIB), container="docker")),
    warning("shm-too-small", with_host(H100, shared_memory=Space(16 * GIB, 100 * MIB)), "100 MiB free of 16 GiB"),
    silent("shm-too-small", with_host(RTX, shared_memory=Space(8 * GIB, 8 * GIB))),
    skipped("shm-too-small", "host.shared_memory"),
    skipped("shm-too-small", but(but(H100, "nvidia.gpus", unread("nvml")), "accelerators.pci", unread("/sys/bus/pci"))),
    info(
        "nccl-segments-left",
        with_host(H100, nccl_segments=(("nccl-aB3x9Z", 9637888), ("nccl-q W;rm", 9637888))),
        "2 NCCL segments",
        "18.4 MiB",
        runs="rm -f /dev/shm/nccl-aB3x9Z",
    ),
    warning(
        "nccl-segments-left", with_host(H100, nccl_segments=tuple((f"nccl-{n:06d}", 16 * MIB) for n in range(100)))
    ),
    silent("nccl-segments-left", with_host(H100, nccl_segments=())),
    skipped("nccl-segments-left", "host.nccl_segments"),
]

WITHOUT_RDMA = with_rdma(H100)  # rdma-memlock-low speaks of machines with RDMA
USER_HOST = with_host(WITHOUT_RDMA, is_root=False)
LIMIT_CASES = [
    warning(
        "memlock-too-low",
        but(
            with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB)),
            "accelerators.kernel_modules",
            read("/proc/modules", ("nvidia", "nvidia_peermem")),
        ),
        "8 MiB",
        "nvidia_peermem is loaded",
        runs="printf '* soft memlock unlimited\\n* hard memlock unlimited\\n'"
        " | sudo tee /etc/security/limits.d/90-memlock.conf",
    ),
    info(
        "memlock-too-low",
        with_host(USER_HOST, limits=limits(memlock_soft_bytes=64 * 1024)),
        "64 KiB",
        runs="ulimit -l unlimited",
    ),
    # root inside one is not
    warning(
        "memlock-too-low",
        with_environment(
            with_host(WITHOUT_RDMA, container="docker", limits=limits(memlock_soft_bytes=64 * 1024)),
            NCCL_IB_HCA="mlx5_0",
        ),
    ),
    # Ubuntu's default, and no sign of RDMA
    silent(
        "memlock-too-low", with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB))
    ),
    # root outside a container is exempt
    silent("memlock-too-low", with_host(WITHOUT_RDMA, limits=limits(memlock_soft_bytes=64 * 1024))),
    silent("memlock-too-low", without_gpu(with_host(USER_HOST, limits=limits(memlock_soft_bytes=64 * 1024)))),
    skipped(
        "memlock-too-low", but(with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB)), "environment", unread())
    ),
    warning(
        "open-files-limit-low",
        with_host(H100, limits=limits(open_files_soft=256, open_files_hard=4096)),
        "256",
        runs="ulimit -n 4096",
    ),
    info(
        "open-files-limit-low",
        with_host(H100, limits=limits(open_files_soft=1024, open_files_hard=1048576)),
        runs="ulimit -n 65536",
    ),
    silent(
        "open-files-limit-low", with_host(h100_node(1), limits=limits(open_files_soft=1024, open_files_hard=1048576))
    ),
    skipped("open-files-limit-low", "host.limits"),
    warning(
        "process-limit-low",
        with_host(H100, cgroup=Cgroup(2, pids_limit=1024, pids_used=900)),
        "1024",
        "holds 900",
        "8 GPUs want 768",
    ),
    warning("process-limit-low", with_host(USER_HOST, limits=limits(processes_soft=200)), runs="ulimit -u 768"),
    silent("process-limit-low", with_host(H100, cgroup=Cgroup(2, pids_limit=2048, pids_used=40))),  # podman's default
    silent("process-limit-low", with_host(H100, limits=limits(processes_soft=200))),  # root's is not applied
    skipped("process-limit-low", "host.cgroup"),
    warning(
        "cgroup-memory-limit-low",
        with_host(H100, cgroup=Cgroup(2, memory_limit_bytes=100 * GIB, memory_used_bytes=99 * GIB)),
        "99 GiB of its 100 GiB",
    ),
    warning(
        "cgroup-memory-limit-low",
        with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=16 * GIB, memory_used_bytes=1 * GIB)),
        "16 GiB",
        "8 ranks want 32 GiB",
    ),
    silent(
        "cgroup-memory-limit-low",
        without_gpu(with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=1 * GIB, memory_used_bytes=100 * MIB))),
    ),
    skipped("cgroup-memory-limit-low", "host.cgroup"),
    skipped(
        "cgroup-memory-limit-low",
        but(with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=GIB)), "nvidia.gpus", unread("nvml")),
    ),
    warning("cgroup-cpu-limit-low", with_host(H100, cgroup=Cgroup(2, cpu_limit=8.0)), "8 CPUs", "8 GPUs want 32"),
    info("cgroup-cpu-limit-low", with_host(h100_node(1), cgroup=Cgroup(2, cpu_limit=2.5)), "2.5 CPUs"),
    silent("cgroup-cpu-limit-low", without_gpu(with_host(H100, cgroup=Cgroup(2, cpu_limit=0.5)))),
    silent("cgroup-cpu-limit-low", with_host(h100_node(1), cgroup=Cgroup(2, cpu_limit=4.0))),
    skipped("cgroup-cpu-limit-low", "host.cgroup"),
]

MEMORY_CASES = [
    warning("memory-low", with_host(H100, memory_available_bytes=9 * GIB), "9 GiB", "8 GPUs want 16 GiB"),
    # a laptop
    silent("memory-low", with_host(h100_node(1), memory_total_bytes=16 * GIB, memory_available_bytes=4 * GIB)),
    # a small VM
    silent("memory-low", with_host(without_gpu(), memory_total_bytes=1 * GIB, memory_available_bytes=500 * MIB)),
    skipped("memory-low", "host.memory_available_bytes"),
    warning(
        "swap-in-use",
        with_host(H100, swap_used_bytes=6 * GIB, memory_available_bytes=40 * GIB),
        "6 GiB lie in swap",
        "40 GiB of 2 TiB",
    ),
    silent("swap-in-use", with_host(H100, swap_used_bytes=6 * GIB)),  # idle pages, and memory is free
    skipped("swap-in-use", "host.swap_used_bytes"),
    warning("process-killed-by-oom", logged(oom_kills=("python3", "python3", "Xorg")), "python3 (2 times) and Xorg"),
    info("process-killed-by-oom", logged(oom_kills=("chrome",))),
    silent("process-killed-by-oom", logged(oom_kills=())),
    skipped("process-killed-by-oom", but(H100, LOG, unread("/dev/kmsg"))),
]

TIB = 1024 * GIB
PATH_CASES = [
    warning(
        "disk-space-low",
        with_paths(
            space_of("TMPDIR", "/tmp", 200 * GIB, 9 * GIB, 100, 50, filesystem="ext4"),
            space_of("HF_HOME", "/my data/hf", 200 * GIB, 9 * GIB, 100, 50, filesystem="ext4"),
        ),
        "9 GiB of 200 GiB",
        "TMPDIR (/tmp) and HF_HOME (/my data/hf)",
        runs="du -xh --max-depth=2 '/my data/hf' | sort -rh | head",
    ),
    error("disk-space-low", with_paths(space_of("TMPDIR", "/tmp", 200 * GIB, 100 * MIB), GONE)),
    # 5 % of a large store, and an image that is full by nature
    silent(
        "disk-space-low",
        with_paths(
            space_of("HF_HOME", "/store", 100 * TIB, 5 * TIB),
            space_of("TORCH_HOME", "/snap/models", 10 * GIB, 0, writable=False),
        ),
    ),
    skipped("disk-space-low", with_paths(GONE)),
    warning(
        "inodes-low",
        with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 60_000_000, 20_000), GONE),
        "20000 of 60000000",
        runs="du -x --inodes --max-depth=3 /tmp | sort -rn | head",
    ),
    error("inodes-low", with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 60_000_000, 0))),
    # btrfs counts none
    silent("inodes-low", with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 0, 0, filesystem="btrfs"))),
    skipped("inodes-low", with_paths(GONE)),
    error(
        "path-unwritable",
        with_paths(GONE, space_of("TMPDIR", "/scratch/me", GIB, GIB, writable=False)),
        "/scratch/me (TMPDIR)",
        runs=("ls -ld /scratch/me", "findmnt -T /scratch/me"),
    ),
    warning("path-unwritable", with_paths(space_of("HF_HOME", "/models", GIB, GIB, writable=False))),
    info("path-unwritable", with_paths(space_of("working folder", "/", GIB, GIB, writable=False))),
    warning(
        "path-unwritable",
        with_paths(UsedPath("TMPDIR", "/scratch/job 7", missing("statvfs", "no such folder"))),
        runs="mkdir -p '/scratch/job 7'",
    ),
    silent("path-unwritable", with_paths(space_of("TMPDIR", "/scratch/me", 0, 0))),
    skipped("path-unwritable", with_paths(GONE)),
    error(
        "path-unresponsive",
        with_paths(GONE, space_of("TMPDIR", "/tmp", GIB, GIB)),
        "/nfs/hf (HF_HOME)",
        "no answer within 3 s",
    ),
    silent(
        "path-unresponsive", with_paths(UsedPath("HF_HOME", "/x", missing("statvfs /x", "permission denied", "denied")))
    ),
    skipped("path-unresponsive", "host.paths"),
]

CASES = [*SHM_CASES, *LIMIT_CASES, *MEMORY_CASES, *PATH_CASES]
