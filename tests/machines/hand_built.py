"""Whole machines, each a story somebody could tell; their reports stand beside this file as NAME.txt.

`python -m tests.machines` writes the reports anew; read the difference before committing it. A snapshot that comes
with a bug report goes here as NAME.json.
"""

from collections.abc import Callable, Mapping

import msgspec

from gpudoctor.snapshot import (
    Accelerators,
    Cgroup,
    CudaAnswer,
    DeviceNode,
    EccCounts,
    Gpu,
    GpuProcess,
    Host,
    KernelLog,
    Library,
    MigDevice,
    Nvidia,
    NvLink,
    PciDevice,
    RemappedRows,
    Snapshot,
    Space,
    TorchFiles,
    UsedPath,
    XidEvent,
    absent,
    missing,
    read,
)
from gpudoctor.testing.machines import (
    GIB,
    MIB,
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    nvml,
    rtx_4090,
    rtx_4090_node,
    t4_node,
)
from gpudoctor.testing.networks import default_route, interface, with_interfaces, with_network


def with_environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", dict(variables))


def healthy_8xh100() -> Snapshot:
    """Nothing to say."""
    return h100_node()


def broken_8xh100() -> Snapshot:
    """A container on a node that has run for months: one GPU with bad memory, one badly seated, one held."""
    machine = with_environment(
        h100_node(),
        CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,8",
        LD_LIBRARY_PATH="/opt/hpcx/nccl/lib:/usr/local/cuda/lib64",
        NCCL_DEBUG="WARN",
    )
    machine = but_gpu(
        machine,
        3,
        ecc_volatile=EccCounts(0, 2),
        ecc_aggregate=EccCounts(14, 2),
        remapped_rows=RemappedRows(0, 1, True, False),
    )
    links = tuple(
        NvLink(link, link != 7, "switch", replay_errors=0, recovery_errors=0, crc_errors=0) for link in range(18)
    )
    machine = but_gpu(machine, 5, pcie_width=8, nvlinks=links)
    held = GpuProcess(41277, "compute", 61440 * MIB, nvml("mara"), nvml("python train.py"))
    machine = but_gpu(
        machine,
        2,
        processes=(held,),
        memory_used_bytes=61444 * MIB,
        memory_free_bytes=19567 * MIB,
        utilization_gpu_percent=100,
        power_draw_watts=412.0,
        temperature_celsius=58,
    )
    visible = machine.cuda.all.value
    machine = but(machine, "cuda.visible", msgspec.structs.replace(visible, devices=visible.devices[:7]))
    facts = machine.training.torch.value
    machine = but(
        machine,
        "training.torch",
        msgspec.structs.replace(
            facts,
            device_count=7,
            devices=facts.devices[:7],
            nvml_device_count=7,
            nccl_version=(2, 21, 5),
            loaded_libraries={"nccl": "/opt/hpcx/nccl/lib/libnccl.so.2"},
        ),
    )
    libraries = (
        Library("nccl", "/opt/hpcx/nccl/lib/libnccl.so.2", "LD_LIBRARY_PATH", "2.21.5"),
        *machine.training.libraries.value,
    )
    machine = but(machine, "training.libraries", libraries)
    machine = but(machine, "host.container", read("/.dockerenv", "docker"))
    machine = but(machine, "host.shared_memory", Space(64 * MIB, 64 * MIB, filesystem="tmpfs"))
    log = KernelLog(
        (
            XidEvent(
                94,
                "0000:4b:00",
                "NVRM: Xid (PCI:0000:4b:00): 94, pid=39120, name=python, Contained: SM (0x1). RST: No, D-RST: No",
                seconds_ago=5400.0,
            ),
        )
    )
    return but(machine, "host.kernel_log", log)


def laptop() -> Snapshot:
    """A laptop as it comes: one GeForce, display attached, powersave governor, name on 127.0.1.1."""
    card: Gpu = rtx_4090(
        0,
        name="NVIDIA GeForce RTX 4070 Laptop GPU",
        memory_total_bytes=8188 * MIB,
        memory_used_bytes=412 * MIB,
        memory_free_bytes=7500 * MIB,
        power_draw_watts=9.8,
        power_limit_watts=80.0,
        power_limit_default_watts=80.0,
        pcie_width=8,
        pcie_width_max=8,
        display_active=True,
        processes=(GpuProcess(2210, "graphics", 380 * MIB, nvml("mara"), nvml("/usr/bin/gnome-shell")),),
    )
    machine = node((card,))
    space = Space(500 * GIB, 210 * GIB, 3 * 10**7, 2 * 10**7, "ext4")
    host = msgspec.structs.replace(
        machine.host,
        hostname=read("gethostname", "laptop"),
        hostname_addresses=read("getaddrinfo laptop", ("127.0.1.1",)),
        distribution=read("/etc/os-release", "Ubuntu 24.04.3 LTS"),
        cpu_model=read("/proc/cpuinfo", "AMD Ryzen 7 7840HS"),
        cpus=read("/proc/stat", 16),
        cpus_allowed=read("sched_getaffinity", tuple(range(16))),
        cpu_governors=read("/sys/devices/system/cpu", {"powersave": 16}),
        numa_nodes=read("/sys/devices/system/node", {0: tuple(range(16))}),
        memory_total_bytes=read("/proc/meminfo", 31 * GIB),
        memory_available_bytes=read("/proc/meminfo", 22 * GIB),
        is_root=read("geteuid", False),
        shared_memory=read("statvfs /dev/shm", Space(15 * GIB, 15 * GIB, filesystem="tmpfs")),
        paths=read("environment", (UsedPath("TMPDIR", "/tmp", read("statvfs /tmp", space)),)),
        kernel_command_line=read("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro quiet splash"),
        iommu_group_types=read("/sys/kernel/iommu_groups", {"DMA-FQ": 21}),
        acs_bridges=missing("/sys/bus/pci/devices/*/config", "permission denied; root reads it", "denied"),
        kernel_log=missing("/dev/kmsg", "permission denied; root reads it", "denied"),
    )
    for name in ("cpu_affinity", "numa_node"):
        machine = but_gpu(machine, 0, **{name: nvml(tuple(range(16)) if name == "cpu_affinity" else 0)})
    wireless = interface("wlp1s0", "192.168.1.23/24", kind="wireless", speed_mbps=None, driver="iwlwifi")
    docker = interface("docker0", "172.17.0.1/16", kind="docker", is_running=False, operstate="down")
    machine = with_interfaces(but(machine, "host", host), wireless, docker)
    return with_network(machine, routes=(default_route("wlp1s0", "192.168.1.1"),))


def wheel_without_cuda() -> Snapshot:
    """Two T4s in a cloud VM, and a CPU-only torch."""
    machine = but(t4_node(), "host.virtualization", "kvm")
    facts = machine.training.torch.value
    machine = but(machine, "training.torch_files", TorchFiles("2.13.0+cpu", "/opt/venv/torch"))
    return but(
        machine,
        "training.torch",
        msgspec.structs.replace(
            facts,
            version="2.13.0+cpu",
            cuda_version=None,
            cuda_built=False,
            cuda_available=False,
            device_count=0,
            devices=(),
            arch_list=(),
            nccl_version=None,
            distributed_backends=("gloo",),
        ),
    )


def lost_gpu() -> Snapshot:
    """GPU 1 of four fell off the bus: NVML still counts it and answers nothing about it."""
    machine = rtx_4090_node()
    lost = missing("nvmlDeviceGetHandleByIndex GPU 1", "GPU is lost (NVML error 15)", "lost")
    gone = Gpu(1, **{name: lost for name in Gpu.__struct_fields__ if name != "index"})
    gpus = machine.nvidia.gpus.value
    machine = but(machine, "nvidia.gpus", (gpus[0], gone, *gpus[2:]))
    log = KernelLog(
        (XidEvent(79, "0000:2b:00", "NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus.", seconds_ago=640.0),)
    )
    machine = but(machine, "host.kernel_log", log)
    unknown = read("libcuda", CudaAnswer(999, "CUDA_ERROR_UNKNOWN", (13, 0)))
    return but(but(machine, "cuda.visible", unknown), "cuda.all", unknown)


def driver_upgraded_under_us() -> Snapshot:
    """unattended-upgrades replaced the libraries; the old kernel module is still loaded."""
    machine = t4_node()
    broken = missing("nvmlInit", "NVML and kernel module differ (NVML error 18)")
    nvidia = Nvidia(
        init_code=read("nvmlInit", 18),
        kernel_module_version=read("/proc/driver/nvidia/version", "580.65.06"),
        **{name: broken for name in Nvidia.__struct_fields__ if name not in ("init_code", "kernel_module_version")},
    )
    answer = read("libcuda", CudaAnswer(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"))
    machine = but(but(but(machine, "nvidia", nvidia), "cuda.visible", answer), "cuda.all", answer)
    facts = machine.training.torch.value
    return but(
        machine,
        "training.torch",
        msgspec.structs.replace(
            facts,
            cuda_available=False,
            device_count=0,
            devices=(),
            nvml_device_count=None,
            init_error="Error 803: system has unsupported display driver / cuda driver combination",
        ),
    )


def nvml_hangs() -> Snapshot:
    """The driver is wedged: NVML and cuInit block; a python process sleeps uninterruptibly."""
    machine = h100_node(4)
    stuck = missing("nvmlInit", "nvmlInit did not return within 10 s", "timeout")
    nvidia = Nvidia(
        kernel_module_version=read("/proc/driver/nvidia/version", "580.95.05"),
        **{name: stuck for name in Nvidia.__struct_fields__ if name != "kernel_module_version"},
    )
    hung = missing("cuInit", "cuInit did not return within 10 s", "timeout")
    machine = but(but(but(machine, "nvidia", nvidia), "cuda.visible", hung), "cuda.all", hung)
    torch = missing("torch.cuda.is_available()", "torch.cuda.is_available() did not return within 10 s", "timeout")
    return but(machine, "training.torch", torch)


def mig_in_kubernetes() -> Snapshot:
    """A pod with one MIG slice of an A100; utilisation is not supported in MIG mode, host processes are invisible."""
    slice_uuid = "MIG-5e9b7d1c-0000-5555-8888-123456789abc"
    card = gpu(
        0,
        name="NVIDIA A100-SXM4-80GB",
        compute_capability=(8, 0),
        utilization_gpu_percent=UNSUPPORTED,
        utilization_memory_percent=UNSUPPORTED,
        mig_mode=True,
        mig_mode_pending=True,
        mig_devices=(
            MigDevice(
                0,
                nvml(slice_uuid),
                nvml("NVIDIA A100-SXM4-80GB MIG 2g.20gb"),
                nvml(3),
                nvml(0),
                nvml(19968 * MIB),
                nvml(13 * MIB),
            ),
        ),
        fabric=UNSUPPORTED,
        nvlinks=UNSUPPORTED,
    )
    machine = node((card,))
    answer = machine.cuda.all.value
    device = msgspec.structs.replace(answer.devices[0], uuid=slice_uuid, memory_total_bytes=19968 * MIB)
    answered = read("libcuda", msgspec.structs.replace(answer, devices=(device,)))
    machine = but(but(machine, "cuda.visible", answered), "cuda.all", answered)
    machine = with_environment(machine, NVIDIA_VISIBLE_DEVICES=slice_uuid, KUBERNETES_SERVICE_HOST="192.0.2.1")
    host: Host = msgspec.structs.replace(
        machine.host,
        container=read("KUBERNETES_SERVICE_HOST", "kubernetes"),
        private_pid_namespace=read("/proc/self/ns/pid", True),
        virtualization=read("/sys/class/dmi/id", "kvm"),
        fabric_manager=missing("/proc", "host processes are not visible from this PID namespace", "denied"),
        stuck_processes=read("/proc", ()),
        kernel_log=missing("/dev/kmsg", "permission denied; root on the host reads it", "denied"),
        acs_bridges=missing("/sys/bus/pci/devices/*/config", "permission denied; root reads it", "denied"),
        cgroup=read("/sys/fs/cgroup", Cgroup(2, 64 * GIB, 2 * GIB, 8.0, None, None)),
        cpus_allowed=read("sched_getaffinity", tuple(range(112))),
    )
    return but(machine, "host", host)


def _without_nvidia(accelerators: Accelerators, torch: str, **facts: object) -> Snapshot:
    machine = node(())
    nothing = absent("/sys/bus/pci/devices, /dev/nvidia*", "no NVIDIA GPU on this machine")
    nvidia = Nvidia(
        init_code=read("nvmlInit", 12), **{name: nothing for name in Nvidia.__struct_fields__ if name != "init_code"}
    )
    no_driver = absent("libcuda.so.1", "no CUDA driver library on this machine")
    machine = but(but(but(machine, "nvidia", nvidia), "cuda.visible", no_driver), "cuda.all", no_driver)
    machine = but(machine, "accelerators", accelerators)
    changed = msgspec.structs.replace(
        machine.training.torch.value,
        **{
            "version": torch,
            "cuda_version": None,
            "cuda_built": False,
            "arch_list": (),
            "nccl_version": None,
            "nvml_device_count": None,
            "distributed_backends": ("gloo",),
            **facts,
        },
    )
    machine = but(machine, "training.torch", changed)
    hip = changed.hip_version
    machine = but(machine, "training.torch_files", TorchFiles(torch, "/opt/venv/torch", hip=hip))
    return but(machine, "training.libraries", ())


def no_accelerator() -> Snapshot:
    """A virtual machine for tests: no GPU of any maker, a CPU build of torch."""
    machine = _without_nvidia(
        Accelerators(
            pci=read("/sys/bus/pci/devices", ()),
            device_nodes=read("/dev", ()),
            kernel_modules=read("/proc/modules", ()),
        ),
        "2.13.0+cpu",
    )
    return but(machine, "host.virtualization", "firecracker")


def amd_with_cpu_torch() -> Snapshot:
    """Eight MI300X whose driver is fine, and a torch that cannot use them."""
    pci = tuple(PciDevice(f"0000:{5 + n:02x}:00.0", "0x1002", "0x74a1", "0x120000", "amdgpu", n // 4) for n in range(8))
    nodes = tuple(
        DeviceNode(path, True, True, 0o666, "root", "render")
        for path in ("/dev/kfd", *(f"/dev/dri/renderD{128 + n}" for n in range(8)))
    )
    return _without_nvidia(
        Accelerators(
            pci=read("/sys/bus/pci/devices", pci),
            device_nodes=read("/dev", nodes),
            kernel_modules=read("/proc/modules", ("amdgpu",)),
        ),
        "2.13.0+cpu",
    )


def tpu_vm() -> Snapshot:
    """A TPU v4 host with plain torch."""
    pci = tuple(PciDevice(f"0000:00:{4 + n:02x}.0", "0x1ae0", "0x005e", "0x120000") for n in range(4))
    nodes = tuple(DeviceNode(f"/dev/accel{n}", True, True, 0o666, "root", "root") for n in range(4))
    machine = _without_nvidia(
        Accelerators(
            pci=read("/sys/bus/pci/devices", pci),
            device_nodes=read("/dev", nodes),
            kernel_modules=read("/proc/modules", ()),
        ),
        "2.13.0+cpu",
    )
    machine = with_environment(machine, TPU_ACCELERATOR_TYPE="v4-8")
    return but(machine, "host.virtualization", "kvm")


MACHINES: Mapping[str, Callable[[], Snapshot]] = {
    "healthy-8xh100": healthy_8xh100,
    "broken-8xh100": broken_8xh100,
    "laptop": laptop,
    "wheel-without-cuda": wheel_without_cuda,
    "lost-gpu": lost_gpu,
    "driver-upgraded-under-us": driver_upgraded_under_us,
    "nvml-hangs": nvml_hangs,
    "mig-in-kubernetes": mig_in_kubernetes,
    "no-accelerator": no_accelerator,
    "amd-with-cpu-torch": amd_with_cpu_torch,
    "tpu-vm": tpu_vm,
}
