"""PyTorch counts other devices than the CUDA driver.

Why it matters: torch.cuda.device_count() decides how many ranks launchers start. Before CUDA is initialised PyTorch
counts by NVML and reads CUDA_VISIBLE_DEVICES itself, not quite as the driver does: GPUs in MIG mode, text behind
numbers and repeated entries come out differently. Ranks beyond the driver's count die with "invalid device ordinal".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import GPUS_HIDDEN
from gpudoctor.knowledge.visible.agreement import enumerated, error_of
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import driver_list
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import NotApplicable, NotRead, absent, missing, read, require


@check(
    "torch-device-count-differs",
    title="PyTorch counts the devices that the CUDA driver gives",
    follows=(*GPUS_HIDDEN, "torch-cuda-unavailable", "gpu-lost"),
)
def torch_device_count_differs(machine: Snapshot) -> Problems:
    torch, answer = machine.training.torch, machine.cuda.visible
    require(machine.nvidia.gpus)  # without an NVIDIA GPU there is nothing to count
    if not torch.value.cuda_built or torch.value.hip_version:
        raise NotApplicable(absent(torch.source, "this PyTorch is not built for CUDA"))
    devices = enumerated(answer.value)
    if devices is None:
        raise NotRead(missing(answer.source, error_of(answer.value)))
    if not torch.value.cuda_available:
        return  # that PyTorch has no device at all is torch-cuda-unavailable's finding
    by_nvml = torch.value.nvml_device_count
    counts = read(torch.source, f"device_count {torch.value.device_count}, by NVML {by_nvml}")
    fix = Fix(
        f"Name the GPUs in {VARIABLE} by plain numbers or whole UUIDs, and compare again.",
        commands=(command("gpudoctor devices"), command("nvidia-smi -L")),
    )
    counted_by_torch = torch.value.device_count
    if counted_by_torch != len(devices):
        yield Problem(
            severity="error" if counted_by_torch < len(devices) else "warning",
            summary=f"torch.cuda.device_count() is {counted_by_torch}; "
            f"the CUDA driver gives {counted(len(devices), 'device')}",
            meaning="A launcher that starts one rank for each device starts the wrong number of them.",
            fix=fix,
            evidence=(counts, driver_list(answer)),
        )
        return
    # -1: PyTorch could not tell by NVML (MIG UUIDs, no NVML) and asks the driver instead.
    if by_nvml is not None and by_nvml >= 0 and by_nvml != len(devices):
        yield Problem(
            severity="warning",
            summary=f"PyTorch counts {counted(by_nvml, 'device')} by NVML before CUDA starts, "
            f"the CUDA driver {len(devices)}",
            meaning="torch.cuda.device_count() gives another number before the first use of CUDA than after it, and a "
            "launcher that asks early starts the wrong number of ranks.",
            fix=fix,
            evidence=(counts, driver_list(answer)),
        )
