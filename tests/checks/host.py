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
        machine = but(machine, f"host.{name}", value)
    return machine


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", variables)


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
SHM_CASES = {
    "shm-too-small": [
        error(
            with_host(H100, shared_memory=Space(64 * MIB, 64 * MIB), container="docker"), "64 MiB", "8 GPUs want 8 GiB"
        ),
        warning(with_host(H100, shared_memory=Space(2 * GIB, 2 * GIB)), runs="sudo mount -o remount,size=8G /dev/shm"),
        # every container without a GPU is made like this
        info(with_host(without_gpu(), shared_memory=Space(64 * MIB, 64 * MIB), container="docker")),
        warning(with_host(H100, shared_memory=Space(16 * GIB, 100 * MIB)), "100 MiB free of 16 GiB"),
        silent(with_host(RTX, shared_memory=Space(8 * GIB, 8 * GIB))),
        skipped("host.shared_memory"),
        skipped(but(but(H100, "nvidia.gpus", unread("nvml")), "accelerators.pci", unread("/sys/bus/pci"))),
    ],
    "nccl-segments-left": [
        info(
            with_host(H100, nccl_segments=(("nccl-aB3x9Z", 9637888), ("nccl-q W;rm", 9637888))),
            "2 NCCL segments",
            "18.4 MiB",
            runs="rm -f /dev/shm/nccl-aB3x9Z",
        ),
        warning(with_host(H100, nccl_segments=tuple((f"nccl-{n:06d}", 16 * MIB) for n in range(100)))),
        silent(with_host(H100, nccl_segments=())),
        skipped("host.nccl_segments"),
    ],
}

WITHOUT_RDMA = with_rdma(H100)  # rdma-memlock-low speaks of machines with RDMA
USER_HOST = with_host(WITHOUT_RDMA, is_root=False)
LIMIT_CASES = {
    "memlock-too-low": [
        warning(
            but(
                with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB)),
                "accelerators.kernel_modules",
                ("nvidia", "nvidia_peermem"),
            ),
            "8 MiB",
            "nvidia_peermem is loaded",
            runs="printf '* soft memlock unlimited\\n* hard memlock unlimited\\n'"
            " | sudo tee /etc/security/limits.d/90-memlock.conf",
        ),
        info(with_host(USER_HOST, limits=limits(memlock_soft_bytes=64 * 1024)), "64 KiB", runs="ulimit -l unlimited"),
        # root inside one is not
        warning(
            with_environment(
                with_host(WITHOUT_RDMA, container="docker", limits=limits(memlock_soft_bytes=64 * 1024)),
                NCCL_IB_HCA="mlx5_0",
            )
        ),
        # Ubuntu's default, and no sign of RDMA
        silent(with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB, memlock_hard_bytes=8 * MIB))),
        # root outside a container is exempt
        silent(with_host(WITHOUT_RDMA, limits=limits(memlock_soft_bytes=64 * 1024))),
        silent(without_gpu(with_host(USER_HOST, limits=limits(memlock_soft_bytes=64 * 1024)))),
        skipped(but(with_host(USER_HOST, limits=limits(memlock_soft_bytes=8 * MIB)), "environment", unread())),
    ],
    "open-files-limit-low": [
        warning(
            with_host(H100, limits=limits(open_files_soft=256, open_files_hard=4096)), "256", runs="ulimit -n 4096"
        ),
        info(with_host(H100, limits=limits(open_files_soft=1024, open_files_hard=1048576)), runs="ulimit -n 65536"),
        silent(with_host(h100_node(1), limits=limits(open_files_soft=1024, open_files_hard=1048576))),
        skipped("host.limits"),
    ],
    "process-limit-low": [
        warning(
            with_host(H100, cgroup=Cgroup(2, pids_limit=1024, pids_used=900)), "1024", "holds 900", "8 GPUs want 768"
        ),
        warning(with_host(USER_HOST, limits=limits(processes_soft=200)), runs="ulimit -u 768"),
        silent(with_host(H100, cgroup=Cgroup(2, pids_limit=2048, pids_used=40))),  # podman's default
        silent(with_host(H100, limits=limits(processes_soft=200))),  # root's is not applied
        skipped("host.cgroup"),
    ],
    "cgroup-memory-limit-low": [
        warning(
            with_host(H100, cgroup=Cgroup(2, memory_limit_bytes=100 * GIB, memory_used_bytes=99 * GIB)),
            "99 GiB of its 100 GiB",
        ),
        warning(
            with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=16 * GIB, memory_used_bytes=1 * GIB)),
            "16 GiB",
            "8 ranks want 32 GiB",
        ),
        silent(without_gpu(with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=1 * GIB, memory_used_bytes=100 * MIB)))),
        info(without_gpu(with_host(H100, cgroup=Cgroup(2, memory_limit_bytes=700 * MIB))), "1 rank wants 1 GiB"),
        warning(
            with_environment(
                without_gpu(with_host(H100, cgroup=Cgroup(2, memory_limit_bytes=3 * GIB))), LOCAL_WORLD_SIZE="4"
            ),
            "4 ranks want 4 GiB",
        ),
        skipped("host.cgroup"),
        skipped(but(with_host(H100, cgroup=Cgroup(1, memory_limit_bytes=GIB)), "nvidia.gpus", unread("nvml"))),
    ],
    "cgroup-cpu-limit-low": [
        warning(with_host(H100, cgroup=Cgroup(2, cpu_limit=8.0)), "8 CPUs", "8 GPUs want 32"),
        info(with_host(h100_node(1), cgroup=Cgroup(2, cpu_limit=2.5)), "2.5 CPUs"),
        info(without_gpu(with_host(H100, cgroup=Cgroup(2, cpu_limit=0.5))), "0.5 CPUs; 1 rank wants 1"),
        warning(
            with_environment(without_gpu(with_host(H100, cgroup=Cgroup(2, cpu_limit=1.5))), LOCAL_WORLD_SIZE="4"),
            "4 ranks want 4",
        ),
        silent(without_gpu(with_host(H100, cgroup=Cgroup(2, cpu_limit=1.0)))),
        silent(with_host(h100_node(1), cgroup=Cgroup(2, cpu_limit=4.0))),
        skipped("host.cgroup"),
    ],
}

MEMORY_CASES = {
    "memory-low": [
        warning(with_host(H100, memory_available_bytes=9 * GIB), "9 GiB", "8 GPUs want 16 GiB"),
        # a laptop
        silent(with_host(h100_node(1), memory_total_bytes=16 * GIB, memory_available_bytes=4 * GIB)),
        # a small VM
        silent(with_host(without_gpu(), memory_total_bytes=1 * GIB, memory_available_bytes=500 * MIB)),
        skipped("host.memory_available_bytes"),
    ],
    "swap-in-use": [
        warning(
            with_host(H100, swap_used_bytes=6 * GIB, memory_available_bytes=40 * GIB),
            "6 GiB lie in swap",
            "40 GiB of 2 TiB",
        ),
        silent(with_host(H100, swap_used_bytes=6 * GIB)),  # idle pages, and memory is free
        skipped("host.swap_used_bytes"),
    ],
    "process-killed-by-oom": [
        warning(logged(oom_kills=("python3", "python3", "Xorg")), "python3 (2 times) and Xorg"),
        info(logged(oom_kills=("chrome",))),
        silent(logged(oom_kills=())),
        skipped(but(H100, LOG, unread("/dev/kmsg"))),
    ],
}

TIB = 1024 * GIB
PATH_CASES = {
    "disk-space-low": [
        warning(
            with_paths(
                space_of("TMPDIR", "/tmp", 200 * GIB, 9 * GIB, 100, 50, filesystem="ext4"),
                space_of("HF_HOME", "/my data/hf", 200 * GIB, 9 * GIB, 100, 50, filesystem="ext4"),
            ),
            "9 GiB of 200 GiB",
            "TMPDIR (/tmp) and HF_HOME (/my data/hf)",
            runs="du -xh --max-depth=2 '/my data/hf' | sort -rh | head",
        ),
        error(with_paths(space_of("TMPDIR", "/tmp", 200 * GIB, 100 * MIB), GONE)),
        # 5 % of a large store, and an image that is full by nature
        silent(
            with_paths(
                space_of("HF_HOME", "/store", 100 * TIB, 5 * TIB),
                space_of("TORCH_HOME", "/snap/models", 10 * GIB, 0, writable=False),
            )
        ),
        skipped(with_paths(GONE)),
    ],
    "inodes-low": [
        warning(
            with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 60_000_000, 20_000), GONE),
            "20000 of 60000000",
            runs="du -x --inodes --max-depth=3 /tmp | sort -rn | head",
        ),
        error(with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 60_000_000, 0))),
        # btrfs counts none
        silent(with_paths(space_of("TMPDIR", "/tmp", 900 * GIB, 700 * GIB, 0, 0, filesystem="btrfs"))),
        skipped(with_paths(GONE)),
    ],
    "path-unwritable": [
        error(
            with_paths(GONE, space_of("TMPDIR", "/scratch/me", GIB, GIB, writable=False)),
            "/scratch/me (TMPDIR)",
            runs=("ls -ld /scratch/me", "findmnt -T /scratch/me"),
        ),
        warning(with_paths(space_of("HF_HOME", "/models", GIB, GIB, writable=False))),
        info(with_paths(space_of("working folder", "/", GIB, GIB, writable=False))),
        warning(
            with_paths(UsedPath("TMPDIR", "/scratch/job 7", missing("statvfs", "no such folder"))),
            runs="mkdir -p '/scratch/job 7'",
        ),
        silent(with_paths(space_of("TMPDIR", "/scratch/me", 0, 0))),
        skipped(with_paths(GONE)),
    ],
    "path-unresponsive": [
        error(with_paths(GONE, space_of("TMPDIR", "/tmp", GIB, GIB)), "/nfs/hf (HF_HOME)", "no answer within 3 s"),
        silent(with_paths(UsedPath("HF_HOME", "/x", missing("statvfs /x", "permission denied", "denied")))),
        skipped("host.paths"),
    ],
}

CASES = {**SHM_CASES, **LIMIT_CASES, **MEMORY_CASES, **PATH_CASES}
