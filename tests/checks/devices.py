"""Cases of the checks in checks/gpudoctor_checks/devices/."""

import msgspec

from gpudoctor.snapshot import (
    CudaAnswer,
    DeviceNode,
    MigDevice,
    PciDevice,
    Reading,
    Snapshot,
    absent,
    missing,
    read,
)
from tests.build import but, but_gpu, gpu, h100_node, node, nvml, t4, t4_node, unread
from tests.cases import Case

VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_ENVIRONMENT = but(h100_node(), "environment", unread("environment of gpudoctor"))
NO_GPU_LIST = but(h100_node(), "nvidia.gpus", unread("nvml"))
TAIL = "-1111-2222-3333-444444444444"


def under(machine: Snapshot, **environment: str) -> Snapshot:
    """The machine with these variables set; its CUDA driver is not asked."""
    return but(
        but(machine, "environment", read("environment of gpudoctor", environment)), "cuda.visible", unread("libcuda")
    )


def answer(machine: Snapshot, *ordinals: int, error: int = 0) -> Reading[CudaAnswer]:
    """libcuda's answer with these of the machine's GPUs."""
    whole = machine.cuda.all.value
    chosen = tuple(
        msgspec.structs.replace(whole.devices[old], ordinal=new) for new, old in enumerate(ordinals) if not error
    )
    return read("libcuda", msgspec.structs.replace(whole, devices=chosen, error=error))


def inside(machine: Snapshot, container: str = "docker") -> Snapshot:
    return but(machine, "host.container", read("/proc/1", container))


def driver_says(machine: Snapshot, *ordinals: int, **environment: str) -> Snapshot:
    """The machine under an environment in which libcuda gives these GPUs."""
    return but(under(machine, **environment), "cuda.visible", answer(machine, *ordinals))


def torch_counts(machine: Snapshot, device_count: int, nvml_count: int | None) -> Snapshot:
    facts = msgspec.structs.replace(
        machine.training.torch.value, device_count=device_count, nvml_device_count=nvml_count
    )
    return but(machine, "training.torch", read("import torch", facts))


def divided(index: int, driver: str) -> Snapshot:
    """Four GPUs, one of them with two MIG devices, under a driver of this version."""
    machine = but_gpu(
        but(h100_node(4), "nvidia.driver_version", nvml(driver)),
        index,
        mig_mode=nvml(True),
        mig_mode_pending=nvml(True),
        mig_devices=nvml(
            tuple(MigDevice(n, nvml(f"MIG-0000000{n}{TAIL}"), nvml("1g.10gb"), nvml(n + 7), nvml(0)) for n in range(2))
        ),
    )
    return but(machine, "cuda.all", unread("libcuda"))


OTHER_UUID = but_gpu(but_gpu(h100_node(4), 1, uuid=nvml("GPU-0a000000-5555")), 2, uuid=nvml(f"GPU-00000001{TAIL}"))
OTHER_UUID = but(OTHER_UUID, "cuda.all", unread("libcuda"))
MIXED = node((t4(0), gpu(1)))
REORDERED = but(MIXED, "cuda.all", answer(MIXED, 1, 0))
AMD = but(
    t4_node(),
    "accelerators.pci",
    read("/sys/bus/pci/devices", (PciDevice("0000:c1:00.0", "0x1002", "0x74a1", "0x120000", "amdgpu"),)),
)
VOID = but(
    inside(but(h100_node(), "nvidia.gpus", missing("nvml", "library not found"))),
    "environment",
    read("environment of gpudoctor", {"NVIDIA_VISIBLE_DEVICES": "void"}),
)


def nodes(*found: DeviceNode) -> Snapshot:
    return but(t4_node(), "accelerators.device_nodes", read("/dev", found))


CASES = [
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(h100_node(), **{VISIBLE: "0,2,-1,1"}),
        silent=under(h100_node(), **{VISIBLE: "0, 2,+1,"}),
        unread=NO_ENVIRONMENT,
        says=('entry 3 ("-1")', "negative"),
        commands=("export CUDA_VISIBLE_DEVICES=0,2,1",),
    ),
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(h100_node(), **{VISIBLE: "6,7,8,9"}),
        silent=inside(under(h100_node(), **{VISIBLE: "8"})),  # host-index-in-container says it
        says=('entry 3 ("8")', "8 GPUs here, 0 to 7"),
        commands=("export CUDA_VISIBLE_DEVICES=6,7",),
    ),
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(h100_node(), **{VISIBLE: "0-3"}),
        unread=NO_GPU_LIST,
        says=('("0-3") is read as 0',),
        commands=("export CUDA_VISIBLE_DEVICES=0,1,2,3",),
    ),
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(h100_node(), **{VISIBLE: "1gpu"}),
        severity="warning",
        commands=("export CUDA_VISIBLE_DEVICES=1",),
    ),
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(h100_node(), **{VISIBLE: "GPU-0000000"}),
        silent=under(h100_node(), **{VISIBLE: "GPU-00000003"}),
        says=("beginning of 8 UUIDs",),
        commands=("nvidia-smi -L",),
    ),
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(OTHER_UUID, **{VISIBLE: f"00000001{TAIL}"}),  # CUDA reads 1, which is another card
        says=('without its prefix "GPU-"', "reads the number 1"),
        commands=(f"export CUDA_VISIBLE_DEVICES=GPU-00000001{TAIL}",),
    ),
    Case(
        "cuda-visible-devices-entry-invalid",
        fires=under(h100_node(), **{VISIBLE: "cuda:1"}),
        commands=("export CUDA_VISIBLE_DEVICES=1",),
    ),
    Case(
        "cuda-visible-devices-duplicate",
        fires=under(h100_node(), **{VISIBLE: "0,1,1"}),
        silent=under(h100_node(), **{VISIBLE: "0,1,-1,1"}),
        unread=NO_ENVIRONMENT,
        says=('entry 3 ("1")', "entry 2"),
        commands=("export CUDA_VISIBLE_DEVICES=0,1",),
    ),
    Case(
        "cuda-visible-devices-duplicate",
        fires=under(h100_node(), **{VISIBLE: f"GPU-00000001,GPU-00000001{TAIL}"}),
        commands=(f"export CUDA_VISIBLE_DEVICES=GPU-00000001{TAIL}",),
    ),
    Case(
        "cuda-visible-devices-empty",
        fires=under(h100_node(), **{VISIBLE: ""}),
        silent=under(node(()), **{VISIBLE: ""}),
        unread=NO_ENVIRONMENT,
        says=("set but empty", "8 GPUs"),
        commands=("unset CUDA_VISIBLE_DEVICES",),
    ),
    Case(
        "cuda-visible-devices-empty",
        fires=under(h100_node(), **{VISIBLE: "NoDevFiles", "SLURM_JOB_ID": "4711"}),
        says=("NoDevFiles",),
        commands=("scontrol show job 4711",),
    ),
    Case(
        "cuda-visible-devices-mixed-forms",
        fires=under(h100_node(), **{VISIBLE: "0,GPU-00000001"}),
        silent=under(h100_node(), **{VISIBLE: "GPU-00000000,GPU-00000001"}),
        unread=NO_GPU_LIST,
        says=("entry 2",),
        commands=(f"export CUDA_VISIBLE_DEVICES=GPU-00000000{TAIL},GPU-00000001{TAIL}",),
    ),
    Case(
        "cuda-device-order-ambiguous",
        fires=driver_says(REORDERED, 1, **{VISIBLE: "0"}),
        silent=under(REORDERED, CUDA_DEVICE_ORDER="PCI_BUS_ID", **{VISIBLE: "0"}),
        unread=but(REORDERED, "nvidia.gpus", unread("nvml")),
        severity="warning",
        says=("CUDA's 0 is nvidia-smi's 1",),
        commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",),
    ),
    Case(
        "cuda-device-order-ambiguous",  # nobody knows the order
        fires=but(MIXED, "cuda.all", unread("libcuda")),
        silent=under(MIXED, **{VISIBLE: "0"}),  # the driver counts as nvidia-smi does
        severity="info",
        says=("2 models",),
    ),
    Case(
        "cuda-device-order-ambiguous",
        fires=but(under(MIXED, **{VISIBLE: "0"}), "cuda.all", unread("libcuda")),
        silent=but(under(MIXED, **{VISIBLE: "GPU-00000001"}), "cuda.all", unread("libcuda")),
        severity="warning",
    ),
    Case(
        "cuda-device-order-invalid",
        fires=under(h100_node(), CUDA_DEVICE_ORDER="pci_bus_id"),
        silent=under(h100_node(), CUDA_DEVICE_ORDER="FASTEST_FIRST"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=('"pci_bus_id"',),
        commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",),
    ),
    Case(
        "cuda-visible-devices-disagrees",
        fires=driver_says(h100_node(), 0, **{VISIBLE: "0,2"}),
        silent=driver_says(h100_node(), 2, 0, **{VISIBLE: "2,0"}),
        unread=under(h100_node(), **{VISIBLE: "0,2"}),
        says=("gives 1 device", "names 2 devices"),
        commands=("nvidia-smi -L",),
    ),
    Case(
        "cuda-visible-devices-disagrees",
        fires=driver_says(h100_node(), 0, 1, CUDA_MPS_PIPE_DIRECTORY="/tmp/mps", **{VISIBLE: "2,3"}),
        silent=but(under(h100_node(), **{VISIBLE: ""}), "cuda.visible", answer(h100_node(), error=100)),
        unread=but(h100_node(), "cuda.visible", answer(h100_node(), error=802)),  # says nothing of the variable
        severity="warning",
        commands=("nvidia-smi -L", "printenv CUDA_MPS_PIPE_DIRECTORY"),
    ),
    Case(
        "cuda-visible-devices-disagrees",  # a form that NVIDIA does not document: the driver settles it
        fires=driver_says(h100_node(), 0, 1, **{VISIBLE: "0,GPU-00000001"}),
        severity="info",
    ),
    Case(
        "gpu-not-enumerated-by-cuda",
        fires=but(h100_node(), "cuda.all", answer(h100_node(), 0, 1, 2, 4, 5, 6, 7)),
        silent=under(h100_node(), **{VISIBLE: "0"}),
        unread=but(h100_node(), "cuda.all", unread("libcuda")),
        says=("GPU 3 (0000:4b:00.0)", "7 devices"),
        commands=("ls -l /dev/nvidia3",),
    ),
    Case(  # a job that was not given GPU 3: gpu-unreadable says so
        "gpu-not-enumerated-by-cuda",
        fires=but(h100_node(), "cuda.all", answer(h100_node(), 0, 1, 2, 4, 5, 6, 7)),
        silent=but(
            but_gpu(h100_node(), 3, uuid=unread("nvml"), pci_bus_id=unread("nvml")),
            "cuda.all",
            answer(h100_node(), 0, 1, 2, 4, 5, 6, 7),
        ),
    ),
    Case(
        "torch-device-count-differs",
        fires=torch_counts(h100_node(), 1, 1),
        silent=but(torch_counts(h100_node(), 2, 2), "cuda.visible", answer(h100_node(), 0, 1)),
        unread=but(h100_node(), "training.torch", unread("import torch")),
        says=("device_count() is 1", "8 devices"),
    ),
    Case(
        "torch-device-count-differs",
        fires=torch_counts(h100_node(), 8, 1),
        silent=torch_counts(h100_node(), 8, -1),
        unread=but(h100_node(), "cuda.visible", unread("libcuda")),
        severity="warning",
        says=("1 device by NVML",),
    ),
    Case(
        "nvidia-visible-devices-void",
        fires=VOID,
        silent=but(VOID, "nvidia.gpus", h100_node().nvidia.gpus),  # CDI sets it beside the GPUs it passes in
        unread=but(VOID, "host.container", unread("/proc/1")),
        says=('NVIDIA_VISIBLE_DEVICES is "void"',),
        commands=("docker run --gpus all ...",),
    ),
    Case(
        "nvidia-visible-devices-void",
        fires=but(VOID, "host.container", read("/proc/1", "kubernetes")),
        silent=but(VOID, "accelerators.pci", read("/sys/bus/pci/devices", ())),  # a host without a GPU
        unread=but(VOID, "nvidia.gpus", missing("nvml", "no answer within 10 s", "timeout")),
        commands=("kubectl describe nodes | grep nvidia.com/gpu",),
    ),
    Case(
        "host-index-in-container",
        fires=inside(under(h100_node(2), **{VISIBLE: "4,5"})),
        silent=under(h100_node(2), **{VISIBLE: "4,5"}),
        unread=but(under(h100_node(2), **{VISIBLE: "4,5"}), "host.container", unread("/proc/1")),
        says=('entry 1 ("4")', "2 GPUs of this container"),
        commands=("unset CUDA_VISIBLE_DEVICES",),
    ),
    Case(
        "slurm-gpu-count-differs",
        fires=under(h100_node(), SLURM_GPUS_ON_NODE="4", **{VISIBLE: "0,1"}),
        silent=under(h100_node(), SLURM_GPUS_ON_NODE="4", **{VISIBLE: "0,1,2,3"}),
        unread=NO_ENVIRONMENT,
        says=("2 GPUs visible", "SLURM_GPUS_ON_NODE"),
    ),
    Case(
        "slurm-gpu-count-differs",
        fires=under(h100_node(), SLURM_STEP_GPUS="0-1,4"),
        silent=under(h100_node(), SLURM_GPUS_ON_NODE="8", SLURM_GPUS_PER_TASK="1", **{VISIBLE: "0"}),
        severity="warning",
        says=("8 GPUs visible", "job 3 (SLURM_STEP_GPUS)"),
    ),
    Case(
        "local-world-size-exceeds-gpus",
        fires=under(h100_node(4), LOCAL_WORLD_SIZE="8"),
        silent=under(h100_node(), LOCAL_WORLD_SIZE="8"),
        unread=NO_ENVIRONMENT,
        says=("LOCAL_WORLD_SIZE is 8", "4 GPUs visible"),
        commands=("torchrun --nproc-per-node=4 ...",),
    ),
    Case(
        "local-world-size-exceeds-gpus",
        fires=under(h100_node(), LOCAL_WORLD_SIZE="2", LOCAL_RANK="1", **{VISIBLE: "0"}),
        # torchrun --virtual-local-rank: each rank sees its own GPU, and is number 0 there
        silent=under(h100_node(), LOCAL_WORLD_SIZE="8", LOCAL_RANK="0", RANK="5", **{VISIBLE: "5"}),
    ),
    Case(
        "mig-hides-other-gpus",
        fires=divided(0, "535.129.03"),
        silent=divided(0, "580.95.05"),
        unread=but(divided(0, "535.129.03"), "nvidia.driver_version", unread("nvml")),
        severity="warning",
        says=("GPU 0 in MIG mode", "driver 535.129.03", "3 whole GPUs (GPUs 1-3)"),
        commands=("export CUDA_VISIBLE_DEVICES=" + ",".join(f"GPU-0000000{n}{TAIL}" for n in (1, 2, 3)),),
    ),
    Case(
        "mig-hides-other-gpus",
        fires=under(divided(3, "535.129.03"), **{VISIBLE: f"MIG-00000001{TAIL}"}),
        silent=under(divided(3, "535.129.03"), **{VISIBLE: "0,1"}),
        unread=but_gpu(divided(3, "535.129.03"), 1, mig_mode=unread("nvml")),
        severity="warning",
    ),
    Case(
        "mig-mode-without-instances",
        fires=but_gpu(h100_node(), 5, mig_mode=nvml(True), mig_mode_pending=nvml(True)),
        silent=divided(0, "580.95.05"),
        unread=but_gpu(h100_node(), 5, mig_mode=unread("nvml")),
        says=("GPU 5", "0 MIG devices"),
        commands=("sudo nvidia-smi -i 5 -mig 0", "sudo nvidia-smi mig -i 5 -lgip"),
    ),
    Case(
        "mig-mode-pending",
        fires=but_gpu(h100_node(), 2, mig_mode_pending=nvml(True)),
        unread=but_gpu(h100_node(), 2, mig_mode_pending=unread("nvml")),
        severity="warning",
        says=("GPU 2", "MIG mode off; on is pending"),
        commands=("sudo nvidia-smi --gpu-reset -i 2", "sudo nvidia-smi -i 2 -mig 0"),
    ),
    Case(
        "hip-rocr-visible-devices-conflict",
        fires=under(AMD, HIP_VISIBLE_DEVICES="2,3", ROCR_VISIBLE_DEVICES="2,3"),
        silent=under(AMD, HIP_VISIBLE_DEVICES="0,1", ROCR_VISIBLE_DEVICES="2,3"),
        unread=but(AMD, "accelerators.pci", unread("/sys/bus/pci/devices")),
        says=('names "2"', "from 0 to 1"),
        commands=("unset HIP_VISIBLE_DEVICES",),
    ),
    Case(
        "hip-rocr-visible-devices-conflict",
        fires=under(AMD, HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="2,3"),
        silent=under(t4_node(), HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="2,3"),  # Slurm, on NVIDIA GPUs
        says=("has 3 devices", "leaves 2"),
    ),
    Case(
        "gpu-device-node-missing",
        fires=nodes(DeviceNode("/dev/nvidia0", True, True, 0o666, "root", "root")),
        silent=but(nodes(), "host.virtualization", read("/sys/class/dmi/id", "wsl2")),
        unread=but(t4_node(), "accelerators.device_nodes", unread("/dev")),
        says=("/dev/nvidia1 of GPU 1",),
        commands=("sudo nvidia-modprobe -c 1",),
    ),
    Case(
        "gpu-device-node-missing",
        fires=inside(nodes()),
        silent=but(nodes(), "nvidia.gpus", absent("nvml", "no NVIDIA GPU on this machine")),
        times=2,
        commands=("docker run --gpus all ...",),
    ),
]
