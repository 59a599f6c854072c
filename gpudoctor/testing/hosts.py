"""What a healthy machine has around its GPUs: the host, and the Python with torch."""

from gpudoctor.snapshot import (
    AcsBridge,
    Cgroup,
    Host,
    KernelLog,
    Library,
    Limits,
    Probe,
    Space,
    TorchDevice,
    TorchFacts,
    TorchFiles,
    Training,
    UsedPath,
    read,
)

GIB = 1024**3
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
"""Of the default torch 2.13 wheel (facts: read from its libtorch_python)."""


def host(*, has_switch: bool = False, driver: str = "580.95.05") -> Host:
    """A healthy two-socket Ubuntu server."""
    return Host(
        hostname=read("gethostname", "node-1"),
        hostname_addresses=read("getaddrinfo node-1", ("192.0.2.11",)),
        system=read("uname", "Linux"),
        kernel_release=read("uname", "6.8.0-60-generic"),
        distribution=read("/etc/os-release", "Ubuntu 24.04.2 LTS"),
        architecture=read("uname", "x86_64"),
        virtualization=read("/sys/class/dmi/id", "none"),
        container=read("/proc/1", "none"),
        private_pid_namespace=read("/proc/self/ns/pid", False),
        is_root=read("geteuid", True),
        uptime_seconds=read("/proc/uptime", 86400.0 * 3),
        cpu_model=read("/proc/cpuinfo", "Intel(R) Xeon(R) Platinum 8480C"),
        cpus=read("/proc/stat", 112),
        cpus_allowed=read("sched_getaffinity", tuple(range(112))),
        cpu_governors=read("/sys/devices/system/cpu", {"performance": 112}),
        numa_nodes=read("/sys/devices/system/node", {0: tuple(range(56)), 1: tuple(range(56, 112))}),
        memory_total_bytes=read("/proc/meminfo", 2048 * GIB),
        memory_available_bytes=read("/proc/meminfo", 1980 * GIB),
        swap_total_bytes=read("/proc/meminfo", 8 * GIB),
        swap_used_bytes=read("/proc/meminfo", 0),
        limits=read("getrlimit", Limits(None, None, 1048576, 1048576, None)),
        cgroup=read("/sys/fs/cgroup", Cgroup(2)),
        shared_memory=read("statvfs /dev/shm", Space(1024 * GIB, 1024 * GIB, filesystem="tmpfs")),
        nccl_segments=read("/dev/shm", ()),
        paths=read(
            "environment",
            (
                UsedPath("TMPDIR", "/tmp", read("statvfs /tmp", Space(900 * GIB, 700 * GIB, 10**8, 9 * 10**7, "ext4"))),
                UsedPath(
                    "HF_HOME",
                    "/root/.cache/huggingface",
                    read("statvfs /root/.cache/huggingface", Space(900 * GIB, 700 * GIB, 10**8, 9 * 10**7, "ext4")),
                ),
            ),
        ),
        clock_synchronised=read("adjtimex", True),
        clock_error_seconds=read("adjtimex", 0.002),
        clock_offset_seconds=read("chronyc -n tracking", -0.000012),
        kernel_command_line=read("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro iommu=pt"),
        iommu_group_types=read("/sys/kernel/iommu_groups", {"identity": 140}),
        acs_bridges=read("/sys/bus/pci/devices/*/config", (AcsBridge("0000:16:01.0", False),)),
        fabric_manager=read("/proc", driver if has_switch else ""),
        stuck_processes=read("/proc", ()),
        kernel_log=read("/dev/kmsg", KernelLog()),
    )


def training(devices: tuple[TorchDevice, ...], *, cuda: str | None = "13.0") -> Training:
    """The default torch 2.13 wheel in a virtual environment."""
    folder = "/opt/venv/lib/python3.11/site-packages"
    return Training(
        python=read("choice", "/opt/venv/bin/python"),
        chosen_by=read("choice", "$VIRTUAL_ENV"),
        python_version=read("worker python_facts", "3.11.7"),
        packages=read(
            "importlib.metadata",
            {"pip": "25.3", "torch": "2.13.0", "nvidia-nccl-cu13": "2.29.7", "nvidia-ml-py": "13.615.71"},
        ),
        torch_files=read(f"{folder}/torch/version.py", TorchFiles("2.13.0+cu130", f"{folder}/torch", cuda)),
        torch=read(
            "import torch",
            TorchFacts(
                version="2.13.0+cu130",
                cuda_version=cuda,
                cuda_built=cuda is not None,
                cuda_available=bool(devices) and cuda is not None,
                device_count=len(devices),
                devices=devices,
                arch_list=ARCHITECTURES,
                nccl_version=(2, 29, 7),
                cudnn_version=91900,
                distributed_backends=("nccl", "gloo"),
                nvml_device_count=len(devices),
                import_seconds=1.5,
            ),
        ),
        python_probe=read("worker python_facts", Probe()),
        torch_probe=read("worker torch_facts", Probe()),
        torch_pins=read(f"{folder}/*.dist-info/METADATA", {}),
        libraries=read(
            "worker python_facts",
            (
                Library("nccl", f"{folder}/nvidia/nccl/lib/libnccl.so.2", "package", "2.29.7"),
                Library("cudnn", f"{folder}/nvidia/cudnn/lib/libcudnn.so.9", "package", "9.19.0"),
            ),
        ),
    )
