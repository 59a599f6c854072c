"""Cases of the checks in checks/gpudoctor_checks/devices/."""

import msgspec

from gpudoctor.snapshot import CudaAnswer, DeviceNode, MigDevice, PciDevice, Reading, Snapshot, missing, read
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, but_gpu, gpu, h100_node, node, nvml, t4, t4_node, unread

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
    error(
        "cuda-visible-devices-entry-invalid",
        under(h100_node(), **{VISIBLE: "0,2,-1,1"}),
        'entry 3 ("-1")',
        "negative",
        runs="export CUDA_VISIBLE_DEVICES=0,2,1",
    ),
    error(
        "cuda-visible-devices-entry-invalid",
        under(h100_node(), **{VISIBLE: "6,7,8,9"}),
        'entry 3 ("8")',
        "8 GPUs here, 0 to 7",
        runs="export CUDA_VISIBLE_DEVICES=6,7",
    ),
    error(
        "cuda-visible-devices-entry-invalid",
        under(h100_node(), **{VISIBLE: "0-3"}),
        '("0-3") is read as 0',
        runs="export CUDA_VISIBLE_DEVICES=0,1,2,3",
    ),
    warning(
        "cuda-visible-devices-entry-invalid",
        under(h100_node(), **{VISIBLE: "1gpu"}),
        runs="export CUDA_VISIBLE_DEVICES=1",
    ),
    error(
        "cuda-visible-devices-entry-invalid",
        under(h100_node(), **{VISIBLE: "GPU-0000000"}),
        "beginning of 8 UUIDs",
        runs="nvidia-smi -L",
    ),
    # CUDA reads 1, which is another card
    error(
        "cuda-visible-devices-entry-invalid",
        under(OTHER_UUID, **{VISIBLE: f"00000001{TAIL}"}),
        'without its prefix "GPU-"',
        "reads the number 1",
        runs=f"export CUDA_VISIBLE_DEVICES=GPU-00000001{TAIL}",
    ),
    error(
        "cuda-visible-devices-entry-invalid",
        under(h100_node(), **{VISIBLE: "cuda:1"}),
        runs="export CUDA_VISIBLE_DEVICES=1",
    ),
    silent("cuda-visible-devices-entry-invalid", under(h100_node(), **{VISIBLE: "0, 2,+1,"})),
    # host-index-in-container says it
    silent("cuda-visible-devices-entry-invalid", inside(under(h100_node(), **{VISIBLE: "8"}))),
    skipped("cuda-visible-devices-entry-invalid", NO_ENVIRONMENT),
    error(
        "cuda-visible-devices-duplicate",
        under(h100_node(), **{VISIBLE: "0,1,1"}),
        'entry 3 ("1")',
        "entry 2",
        runs="export CUDA_VISIBLE_DEVICES=0,1",
    ),
    silent("cuda-visible-devices-duplicate", under(h100_node(), **{VISIBLE: "0,1,-1,1"})),
    skipped("cuda-visible-devices-duplicate", NO_ENVIRONMENT),
    error(
        "cuda-visible-devices-empty",
        under(h100_node(), **{VISIBLE: ""}),
        "set but empty",
        "8 GPUs",
        runs="unset CUDA_VISIBLE_DEVICES",
    ),
    error(
        "cuda-visible-devices-empty",
        under(h100_node(), **{VISIBLE: "NoDevFiles", "SLURM_JOB_ID": "4711"}),
        "NoDevFiles",
        runs="scontrol show job 4711",
    ),
    silent("cuda-visible-devices-empty", under(node(()), **{VISIBLE: ""})),
    skipped("cuda-visible-devices-empty", NO_ENVIRONMENT),
    error(
        "cuda-visible-devices-mixed-forms",
        under(h100_node(), **{VISIBLE: "0,GPU-00000001"}),
        "entry 2",
        runs=f"export CUDA_VISIBLE_DEVICES=GPU-00000000{TAIL},GPU-00000001{TAIL}",
    ),
    silent("cuda-visible-devices-mixed-forms", under(h100_node(), **{VISIBLE: "GPU-00000000,GPU-00000001"})),
    skipped("cuda-visible-devices-mixed-forms", NO_GPU_LIST),
    warning(
        "cuda-device-order-ambiguous",
        driver_says(REORDERED, 1, **{VISIBLE: "0"}),
        "CUDA's 0 is nvidia-smi's 1",
        runs="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
    ),
    # nobody knows the order
    info("cuda-device-order-ambiguous", but(MIXED, "cuda.all", unread("libcuda")), "2 models"),
    silent("cuda-device-order-ambiguous", under(REORDERED, CUDA_DEVICE_ORDER="PCI_BUS_ID", **{VISIBLE: "0"})),
    silent("cuda-device-order-ambiguous", under(MIXED, **{VISIBLE: "0"})),  # the driver counts as nvidia-smi does
    silent(
        "cuda-device-order-ambiguous", but(under(MIXED, **{VISIBLE: "GPU-00000001"}), "cuda.all", unread("libcuda"))
    ),
    skipped("cuda-device-order-ambiguous", but(REORDERED, "nvidia.gpus", unread("nvml"))),
    warning(
        "cuda-device-order-invalid",
        under(h100_node(), CUDA_DEVICE_ORDER="pci_bus_id"),
        '"pci_bus_id"',
        runs="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
    ),
    silent("cuda-device-order-invalid", under(h100_node(), CUDA_DEVICE_ORDER="FASTEST_FIRST")),
    skipped("cuda-device-order-invalid", NO_ENVIRONMENT),
    error(
        "cuda-visible-devices-disagrees",
        driver_says(h100_node(), 0, **{VISIBLE: "0,2"}),
        "gives 1 device",
        "names 2 devices",
        runs="nvidia-smi -L",
    ),
    warning(
        "cuda-visible-devices-disagrees",
        driver_says(h100_node(), 0, 1, CUDA_MPS_PIPE_DIRECTORY="/tmp/mps", **{VISIBLE: "2,3"}),
        runs=("nvidia-smi -L", "printenv CUDA_MPS_PIPE_DIRECTORY"),
    ),
    # a form that NVIDIA does not document: the driver settles it
    info("cuda-visible-devices-disagrees", driver_says(h100_node(), 0, 1, **{VISIBLE: "0,GPU-00000001"})),
    silent("cuda-visible-devices-disagrees", driver_says(h100_node(), 2, 0, **{VISIBLE: "2,0"})),
    skipped("cuda-visible-devices-disagrees", under(h100_node(), **{VISIBLE: "0,2"})),
    # says nothing of the variable
    skipped("cuda-visible-devices-disagrees", but(h100_node(), "cuda.visible", answer(h100_node(), error=802))),
    error(
        "gpu-not-enumerated-by-cuda",
        but(h100_node(), "cuda.all", answer(h100_node(), 0, 1, 2, 4, 5, 6, 7)),
        "GPU 3 (0000:4b:00.0)",
        "7 devices",
        runs="ls -l /dev/nvidia3",
    ),
    # a job that was not given GPU 3: gpu-unreadable says so
    error("gpu-not-enumerated-by-cuda", but(h100_node(), "cuda.all", answer(h100_node(), 0, 1, 2, 4, 5, 6, 7))),
    silent(
        "gpu-not-enumerated-by-cuda",
        but(
            but_gpu(h100_node(), 3, uuid=unread("nvml"), pci_bus_id=unread("nvml")),
            "cuda.all",
            answer(h100_node(), 0, 1, 2, 4, 5, 6, 7),
        ),
    ),
    skipped("gpu-not-enumerated-by-cuda", "cuda.all"),
    error("torch-device-count-differs", torch_counts(h100_node(), 1, 1), "device_count() is 1", "8 devices"),
    warning("torch-device-count-differs", torch_counts(h100_node(), 8, 1), "1 device by NVML"),
    silent(
        "torch-device-count-differs", but(torch_counts(h100_node(), 2, 2), "cuda.visible", answer(h100_node(), 0, 1))
    ),
    skipped("torch-device-count-differs", "training.torch", "cuda.visible"),
    error("nvidia-visible-devices-void", VOID, 'NVIDIA_VISIBLE_DEVICES is "void"', runs="docker run --gpus all ..."),
    error(
        "nvidia-visible-devices-void",
        but(VOID, "host.container", read("/proc/1", "kubernetes")),
        runs="kubectl describe nodes | grep nvidia.com/gpu",
    ),
    # CDI sets it beside the GPUs it passes in
    silent("nvidia-visible-devices-void", but(VOID, "nvidia.gpus", h100_node().nvidia.gpus)),
    # a host without a GPU
    silent("nvidia-visible-devices-void", but(VOID, "accelerators.pci", read("/sys/bus/pci/devices", ()))),
    skipped("nvidia-visible-devices-void", but(VOID, "host.container", unread("/proc/1"))),
    skipped(
        "nvidia-visible-devices-void", but(VOID, "nvidia.gpus", missing("nvml", "no answer within 10 s", "timeout"))
    ),
    error(
        "host-index-in-container",
        inside(under(h100_node(2), **{VISIBLE: "4,5"})),
        'entry 1 ("4")',
        "2 GPUs of this container",
        runs="unset CUDA_VISIBLE_DEVICES",
    ),
    silent("host-index-in-container", under(h100_node(2), **{VISIBLE: "4,5"})),
    skipped(
        "host-index-in-container", but(under(h100_node(2), **{VISIBLE: "4,5"}), "host.container", unread("/proc/1"))
    ),
    error(
        "slurm-gpu-count-differs",
        under(h100_node(), SLURM_GPUS_ON_NODE="4", **{VISIBLE: "0,1"}),
        "2 GPUs visible",
        "SLURM_GPUS_ON_NODE",
    ),
    warning(
        "slurm-gpu-count-differs",
        under(h100_node(), SLURM_STEP_GPUS="0-1,4"),
        "8 GPUs visible",
        "job 3 (SLURM_STEP_GPUS)",
    ),
    silent(
        "slurm-gpu-count-differs", under(h100_node(), SLURM_GPUS_ON_NODE="8", SLURM_GPUS_PER_TASK="1", **{VISIBLE: "0"})
    ),
    skipped("slurm-gpu-count-differs", NO_ENVIRONMENT),
    error(
        "local-world-size-exceeds-gpus",
        under(h100_node(4), LOCAL_WORLD_SIZE="8"),
        "LOCAL_WORLD_SIZE is 8",
        "4 GPUs visible",
        runs="torchrun --nproc-per-node=4 ...",
    ),
    error("local-world-size-exceeds-gpus", under(h100_node(), LOCAL_WORLD_SIZE="2", LOCAL_RANK="1", **{VISIBLE: "0"})),
    silent("local-world-size-exceeds-gpus", under(h100_node(), LOCAL_WORLD_SIZE="8")),
    # torchrun --virtual-local-rank: each rank sees its own GPU, and is number 0 there
    silent(
        "local-world-size-exceeds-gpus",
        under(h100_node(), LOCAL_WORLD_SIZE="8", LOCAL_RANK="0", RANK="5", **{VISIBLE: "5"}),
    ),
    skipped("local-world-size-exceeds-gpus", NO_ENVIRONMENT),
    warning(
        "mig-hides-other-gpus",
        divided(0, "535.129.03"),
        "GPU 0 in MIG mode",
        "driver 535.129.03",
        "3 whole GPUs (GPUs 1-3)",
        runs="export CUDA_VISIBLE_DEVICES=" + ",".join(f"GPU-0000000{n}{TAIL}" for n in (1, 2, 3)),
    ),
    warning("mig-hides-other-gpus", under(divided(3, "535.129.03"), **{VISIBLE: f"MIG-00000001{TAIL}"})),
    silent("mig-hides-other-gpus", divided(0, "580.95.05"), under(divided(3, "535.129.03"), **{VISIBLE: "0,1"})),
    skipped("mig-hides-other-gpus", but(divided(0, "535.129.03"), "nvidia.driver_version", unread("nvml"))),
    skipped("mig-hides-other-gpus", but_gpu(divided(3, "535.129.03"), 1, mig_mode=unread("nvml"))),
    error(
        "mig-mode-without-instances",
        but_gpu(h100_node(), 5, mig_mode=nvml(True), mig_mode_pending=nvml(True)),
        "GPU 5",
        "0 MIG devices",
        runs=("sudo nvidia-smi -i 5 -mig 0", "sudo nvidia-smi mig -i 5 -lgip"),
    ),
    silent("mig-mode-without-instances", divided(0, "580.95.05")),
    skipped("mig-mode-without-instances", but_gpu(h100_node(), 5, mig_mode=unread("nvml"))),
    warning(
        "mig-mode-pending",
        but_gpu(h100_node(), 2, mig_mode_pending=nvml(True)),
        "GPU 2",
        "MIG mode off; on is pending",
        runs=("sudo nvidia-smi --gpu-reset -i 2", "sudo nvidia-smi -i 2 -mig 0"),
    ),
    silent("mig-mode-pending", but_gpu(h100_node(), 2, mig_mode=nvml(True), mig_mode_pending=nvml(True))),
    skipped("mig-mode-pending", but_gpu(h100_node(), 2, mig_mode_pending=unread("nvml"))),
    error(
        "hip-rocr-visible-devices-conflict",
        under(AMD, HIP_VISIBLE_DEVICES="2,3", ROCR_VISIBLE_DEVICES="2,3"),
        'names "2"',
        "from 0 to 1",
        runs="unset HIP_VISIBLE_DEVICES",
    ),
    error(
        "hip-rocr-visible-devices-conflict",
        under(AMD, HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="2,3"),
        "has 3 devices",
        "leaves 2",
    ),
    silent("hip-rocr-visible-devices-conflict", under(AMD, HIP_VISIBLE_DEVICES="0,1", ROCR_VISIBLE_DEVICES="2,3")),
    # Slurm, on NVIDIA GPUs
    silent(
        "hip-rocr-visible-devices-conflict", under(t4_node(), HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="2,3")
    ),
    skipped("hip-rocr-visible-devices-conflict", but(AMD, "accelerators.pci", unread("/sys/bus/pci/devices"))),
    error(
        "gpu-device-node-missing",
        nodes(DeviceNode("/dev/nvidia0", True, True, 0o666, "root", "root")),
        "/dev/nvidia1 of GPU 1",
        runs="sudo nvidia-modprobe -c 1",
    ),
    error("gpu-device-node-missing", inside(nodes()), runs="docker run --gpus all ...", times=2),
    silent("gpu-device-node-missing", but(nodes(), "host.virtualization", read("/sys/class/dmi/id", "wsl2"))),
    skipped("gpu-device-node-missing", but(t4_node(), "accelerators.device_nodes", unread("/dev"))),
]
