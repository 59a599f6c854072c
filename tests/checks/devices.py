"""Cases of the checks in checks/gpudoctor_checks/devices/."""

import msgspec

from gpudoctor.snapshot import (
    CudaAnswer,
    DeviceNode,
    Expectation,
    MigDevice,
    PciDevice,
    Reading,
    Snapshot,
    absent,
    missing,
    read,
)
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, but_gpu, gpu, h100_node, node, nvml, t4, t4_node, unread

VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_ENVIRONMENT = but(h100_node(), "environment", unread("environment of gpudoctor"))
NO_GPU_LIST = but(h100_node(), "nvidia.gpus", unread("nvml"))
NO_ACCELERATOR = but(
    but(but(h100_node(1), "nvidia.gpus", absent("nvmlInit", "no library")), "accelerators.pci", ()),
    "training.torch",
    unread("torch"),
)
TAIL = "-1111-2222-3333-444444444444"


def under(machine: Snapshot, **environment: str) -> Snapshot:
    """The machine with these variables set; its CUDA driver is not asked."""
    return but(but(machine, "environment", environment), "cuda.visible", unread("libcuda"))


def answer(machine: Snapshot, *ordinals: int, error: int = 0) -> Reading[CudaAnswer]:
    """libcuda's answer with these of the machine's GPUs."""
    whole = machine.cuda.all.value
    chosen = tuple(
        msgspec.structs.replace(whole.devices[old], ordinal=new) for new, old in enumerate(ordinals) if not error
    )
    return read("libcuda", msgspec.structs.replace(whole, devices=chosen, error=error))


def inside(machine: Snapshot, container: str = "docker") -> Snapshot:
    return but(machine, "host.container", container)


def driver_says(machine: Snapshot, *ordinals: int, **environment: str) -> Snapshot:
    """The machine under an environment in which libcuda gives these GPUs."""
    return but(under(machine, **environment), "cuda.visible", answer(machine, *ordinals))


def torch_counts(machine: Snapshot, device_count: int, nvml_count: int | None) -> Snapshot:
    facts = msgspec.structs.replace(
        machine.training.torch.value, device_count=device_count, nvml_device_count=nvml_count
    )
    return but(machine, "training.torch", facts)


def divided(index: int, driver: str) -> Snapshot:
    """Four GPUs, one of them with two MIG devices, under a driver of this version."""
    machine = but_gpu(
        but(h100_node(4), "nvidia.driver_version", driver),
        index,
        mig_mode=True,
        mig_mode_pending=True,
        mig_devices=tuple(
            MigDevice(n, nvml(f"MIG-0000000{n}{TAIL}"), nvml("1g.10gb"), nvml(n + 7), nvml(0)) for n in range(2)
        ),
    )
    return but(machine, "cuda.all", unread("libcuda"))


OTHER_UUID = but_gpu(but_gpu(h100_node(4), 1, uuid="GPU-0a000000-5555"), 2, uuid=f"GPU-00000001{TAIL}")
OTHER_UUID = but(OTHER_UUID, "cuda.all", unread("libcuda"))
MIXED = node((t4(0), gpu(1)))
REORDERED = but(MIXED, "cuda.all", answer(MIXED, 1, 0))
AMD = but(t4_node(), "accelerators.pci", (PciDevice("0000:c1:00.0", "0x1002", "0x74a1", "0x120000", "amdgpu"),))
VOID = but(
    inside(but(h100_node(), "nvidia.gpus", missing("nvml", "library not found"))),
    "environment",
    {"NVIDIA_VISIBLE_DEVICES": "void"},
)


def nodes(*found: DeviceNode) -> Snapshot:
    return but(t4_node(), "accelerators.device_nodes", found)


CASES = {
    "gpus-fewer-than-expected": [
        error(
            but(h100_node(7), "expected", Expectation.of("8xH100")), "7 GPUs of 8 H100 expected", runs="nvidia-smi -L"
        ),
        error(but(h100_node(), "expected", Expectation.of("2xT4")), "there are others: NVIDIA H100 80GB HBM3"),
        error(inside(under(h100_node(1), NVIDIA_VISIBLE_DEVICES="0,3")), "1 GPU of 2 GPUs expected"),
        error(
            under(NO_ACCELERATOR, **{VISIBLE: "0,1"}), "0 GPUs of 2 GPUs expected (environment CUDA_VISIBLE_DEVICES)"
        ),
        error(under(NO_ACCELERATOR, SLURM_GPUS_ON_NODE="4"), "0 GPUs of 4 GPUs", "SLURM_GPUS_ON_NODE"),
        silent(
            but(h100_node(), "expected", Expectation.of("8xH100")),
            but(h100_node(), "expected", Expectation.of("cpu")),
            inside(under(h100_node(2), NVIDIA_VISIBLE_DEVICES="0,3")),
            inside(under(h100_node(2), NVIDIA_VISIBLE_DEVICES="all")),
            under(but(NO_ACCELERATOR, "expected", Expectation.of("cpu")), SLURM_GPUS_ON_NODE="4"),
            under(NO_ACCELERATOR, **{VISIBLE: "-1"}, SLURM_GPUS_ON_NODE="0"),
            # a Jetson: torch sees what NVML does not know
            but(but(h100_node(1), "nvidia.gpus", absent("nvmlInit", "no library")), "expected", Expectation.of("1")),
        ),
        skipped(but(NO_GPU_LIST, "expected", Expectation.of("8xH100"))),
    ],
    "cuda-visible-devices-entry-invalid": [
        error(
            under(h100_node(), **{VISIBLE: "0,2,-1,1"}),
            'entry 3 ("-1")',
            "negative",
            runs="export CUDA_VISIBLE_DEVICES=0,2,1",
        ),
        error(
            under(h100_node(), **{VISIBLE: "6,7,8,9"}),
            'entry 3 ("8")',
            "8 GPUs here, 0 to 7",
            runs="export CUDA_VISIBLE_DEVICES=6,7",
        ),
        error(
            under(h100_node(), **{VISIBLE: "0-3"}), '("0-3") is read as 0', runs="export CUDA_VISIBLE_DEVICES=0,1,2,3"
        ),
        warning(under(h100_node(), **{VISIBLE: "1gpu"}), runs="export CUDA_VISIBLE_DEVICES=1"),
        error(under(h100_node(), **{VISIBLE: "GPU-0000000"}), "beginning of 8 UUIDs", runs="nvidia-smi -L"),
        # CUDA reads 1, which is another card
        error(
            under(OTHER_UUID, **{VISIBLE: f"00000001{TAIL}"}),
            'without its prefix "GPU-"',
            "reads the number 1",
            runs=f"export CUDA_VISIBLE_DEVICES=GPU-00000001{TAIL}",
        ),
        error(under(h100_node(), **{VISIBLE: "cuda:1"}), runs="export CUDA_VISIBLE_DEVICES=1"),
        silent(under(h100_node(), **{VISIBLE: "0, 2,+1,"})),
        # host-index-in-container says it
        silent(inside(under(h100_node(), **{VISIBLE: "8"}))),
        skipped(NO_ENVIRONMENT),
    ],
    "cuda-visible-devices-duplicate": [
        error(
            under(h100_node(), **{VISIBLE: "0,1,1"}), 'entry 3 ("1")', "entry 2", runs="export CUDA_VISIBLE_DEVICES=0,1"
        ),
        silent(under(h100_node(), **{VISIBLE: "0,1,-1,1"})),
        skipped(NO_ENVIRONMENT),
    ],
    "cuda-visible-devices-empty": [
        error(under(h100_node(), **{VISIBLE: ""}), "set but empty", "8 GPUs", runs="unset CUDA_VISIBLE_DEVICES"),
        error(
            under(h100_node(), **{VISIBLE: "NoDevFiles", "SLURM_JOB_ID": "4711"}),
            "NoDevFiles",
            runs="scontrol show job 4711",
        ),
        silent(under(node(()), **{VISIBLE: ""})),
        skipped(NO_ENVIRONMENT),
    ],
    "cuda-visible-devices-mixed-forms": [
        error(
            under(h100_node(), **{VISIBLE: "0,GPU-00000001"}),
            "entry 2",
            runs=f"export CUDA_VISIBLE_DEVICES=GPU-00000000{TAIL},GPU-00000001{TAIL}",
        ),
        silent(under(h100_node(), **{VISIBLE: "GPU-00000000,GPU-00000001"})),
        skipped(NO_GPU_LIST),
    ],
    "cuda-device-order-ambiguous": [
        warning(
            driver_says(REORDERED, 1, **{VISIBLE: "0"}),
            "CUDA's 0 is nvidia-smi's 1",
            runs="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        ),
        # nobody knows the order
        info(but(MIXED, "cuda.all", unread("libcuda")), "2 models"),
        silent(under(REORDERED, CUDA_DEVICE_ORDER="PCI_BUS_ID", **{VISIBLE: "0"})),
        silent(under(MIXED, **{VISIBLE: "0"})),  # the driver counts as nvidia-smi does
        silent(but(under(MIXED, **{VISIBLE: "GPU-00000001"}), "cuda.all", unread("libcuda"))),
        skipped(but(REORDERED, "nvidia.gpus", unread("nvml"))),
    ],
    "cuda-device-order-invalid": [
        warning(
            under(h100_node(), CUDA_DEVICE_ORDER="pci_bus_id"),
            '"pci_bus_id"',
            runs="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
        ),
        silent(under(h100_node(), CUDA_DEVICE_ORDER="FASTEST_FIRST")),
        skipped(NO_ENVIRONMENT),
    ],
    "cuda-visible-devices-disagrees": [
        error(
            driver_says(h100_node(), 0, **{VISIBLE: "0,2"}), "gives 1 device", "names 2 devices", runs="nvidia-smi -L"
        ),
        warning(
            driver_says(h100_node(), 0, 1, CUDA_MPS_PIPE_DIRECTORY="/tmp/mps", **{VISIBLE: "2,3"}),
            runs=("nvidia-smi -L", "printenv CUDA_MPS_PIPE_DIRECTORY"),
        ),
        # a form that NVIDIA does not document: the driver settles it
        info(driver_says(h100_node(), 0, 1, **{VISIBLE: "0,GPU-00000001"})),
        # a form that its driver refuses as it does a device named twice
        error(
            but(under(h100_node(), **{VISIBLE: "0,2"}), "cuda.visible", answer(h100_node(), error=101)),
            "gives no device",
            runs="nvidia-smi -L",
        ),
        silent(driver_says(h100_node(), 2, 0, **{VISIBLE: "2,0"})),
        silent(but(under(h100_node(), **{VISIBLE: "0,0"}), "cuda.visible", answer(h100_node(), error=101))),
        skipped(under(h100_node(), **{VISIBLE: "0,2"})),
        # says nothing of the variable
        skipped(but(h100_node(), "cuda.visible", answer(h100_node(), error=802))),
    ],
    "gpu-not-enumerated-by-cuda": [
        error(
            but(h100_node(), "cuda.all", answer(h100_node(), 0, 1, 2, 4, 5, 6, 7)),
            "GPU 3 (0000:4b:00.0)",
            "7 devices",
            runs="ls -l /dev/nvidia3",
        ),
        # a job that was not given GPU 3: gpu-unreadable says so
        error(but(h100_node(), "cuda.all", answer(h100_node(), 0, 1, 2, 4, 5, 6, 7))),
        silent(
            but(
                but_gpu(h100_node(), 3, uuid=unread("nvml"), pci_bus_id=unread("nvml")),
                "cuda.all",
                answer(h100_node(), 0, 1, 2, 4, 5, 6, 7),
            )
        ),
        skipped("cuda.all"),
    ],
    "torch-device-count-differs": [
        error(torch_counts(h100_node(), 1, 1), "device_count() is 1", "8 devices"),
        warning(torch_counts(h100_node(), 8, 1), "1 device by NVML"),
        silent(but(torch_counts(h100_node(), 2, 2), "cuda.visible", answer(h100_node(), 0, 1))),
        skipped("training.torch", "cuda.visible"),
    ],
    "nvidia-visible-devices-void": [
        error(VOID, 'NVIDIA_VISIBLE_DEVICES is "void"'),
        error(but(VOID, "host.container", "kubernetes"), runs="kubectl describe nodes | grep nvidia.com/gpu"),
        # CDI sets it beside the GPUs it passes in
        silent(but(VOID, "nvidia.gpus", h100_node().nvidia.gpus)),
        # a host without a GPU
        silent(but(VOID, "accelerators.pci", ())),
        skipped(but(VOID, "host.container", unread("/proc/1"))),
        skipped(but(VOID, "nvidia.gpus", missing("nvml", "no answer within 10 s", "timeout"))),
    ],
    "host-index-in-container": [
        error(
            inside(under(h100_node(2), **{VISIBLE: "4,5"})),
            'entry 1 ("4")',
            "2 GPUs of this container",
            runs="unset CUDA_VISIBLE_DEVICES",
        ),
        silent(under(h100_node(2), **{VISIBLE: "4,5"})),
        skipped(but(under(h100_node(2), **{VISIBLE: "4,5"}), "host.container", unread("/proc/1"))),
    ],
    "slurm-gpu-count-differs": [
        error(under(h100_node(), SLURM_GPUS_ON_NODE="4", **{VISIBLE: "0,1"}), "2 GPUs visible", "SLURM_GPUS_ON_NODE"),
        warning(under(h100_node(), SLURM_STEP_GPUS="0-1,4"), "8 GPUs visible", "job 3 (SLURM_STEP_GPUS)"),
        silent(under(h100_node(), SLURM_GPUS_ON_NODE="8", SLURM_GPUS_PER_TASK="1", **{VISIBLE: "0"})),
        skipped(NO_ENVIRONMENT),
    ],
    "local-world-size-exceeds-gpus": [
        error(
            under(h100_node(4), LOCAL_WORLD_SIZE="8"),
            "LOCAL_WORLD_SIZE is 8",
            "4 GPUs visible",
            runs="gpudoctor devices",
        ),
        error(under(h100_node(), LOCAL_WORLD_SIZE="2", LOCAL_RANK="1", **{VISIBLE: "0"})),
        silent(under(h100_node(), LOCAL_WORLD_SIZE="8")),
        # torchrun --virtual-local-rank: each rank sees its own GPU, and is number 0 there
        silent(under(h100_node(), LOCAL_WORLD_SIZE="8", LOCAL_RANK="0", RANK="5", **{VISIBLE: "5"})),
        skipped(NO_ENVIRONMENT),
    ],
    "mig-hides-other-gpus": [
        warning(
            divided(0, "535.129.03"),
            "GPU 0 in MIG mode",
            "driver 535.129.03",
            "3 whole GPUs (GPUs 1-3)",
            runs="export CUDA_VISIBLE_DEVICES=" + ",".join(f"GPU-0000000{n}{TAIL}" for n in (1, 2, 3)),
        ),
        warning(under(divided(3, "535.129.03"), **{VISIBLE: f"MIG-00000001{TAIL}"})),
        silent(divided(0, "580.95.05"), under(divided(3, "535.129.03"), **{VISIBLE: "0,1"})),
        skipped(but(divided(0, "535.129.03"), "nvidia.driver_version", unread("nvml"))),
        skipped(but_gpu(divided(3, "535.129.03"), 1, mig_mode=unread("nvml"))),
    ],
    "mig-mode-without-instances": [
        error(
            but_gpu(h100_node(), 5, mig_mode=True, mig_mode_pending=True),
            "GPU 5",
            "0 MIG devices",
            runs=("sudo nvidia-smi -i 5 -mig 0", "sudo nvidia-smi mig -i 5 -lgip"),
        ),
        silent(divided(0, "580.95.05")),
        skipped(but_gpu(h100_node(), 5, mig_mode=unread("nvml"))),
    ],
    "mig-mode-pending": [
        warning(
            but_gpu(h100_node(), 2, mig_mode_pending=True),
            "GPU 2",
            "MIG mode off; on is pending",
            runs=("sudo nvidia-smi --gpu-reset -i 2", "sudo nvidia-smi -i 2 -mig 0"),
        ),
        silent(but_gpu(h100_node(), 2, mig_mode=True, mig_mode_pending=True)),
        skipped(but_gpu(h100_node(), 2, mig_mode_pending=unread("nvml"))),
    ],
    "hip-rocr-visible-devices-conflict": [
        error(
            under(AMD, HIP_VISIBLE_DEVICES="2,3", ROCR_VISIBLE_DEVICES="2,3"),
            'names "2"',
            "from 0 to 1",
            runs="unset HIP_VISIBLE_DEVICES",
        ),
        error(under(AMD, HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="2,3"), "has 3 devices", "leaves 2"),
        silent(under(AMD, HIP_VISIBLE_DEVICES="0,1", ROCR_VISIBLE_DEVICES="2,3")),
        # Slurm, on NVIDIA GPUs
        silent(under(t4_node(), HIP_VISIBLE_DEVICES="0,1,2", ROCR_VISIBLE_DEVICES="2,3")),
        skipped(but(AMD, "accelerators.pci", unread("/sys/bus/pci/devices"))),
    ],
    "gpu-device-node-missing": [
        error(
            nodes(DeviceNode("/dev/nvidia0", True, True, 0o666, "root", "root")),
            "/dev/nvidia1 of GPU 1",
            runs="sudo nvidia-modprobe -c 1",
        ),
        error(inside(nodes()), times=2),
        silent(but(nodes(), "host.virtualization", "wsl2")),
        skipped(but(t4_node(), "accelerators.device_nodes", unread("/dev"))),
    ],
}
