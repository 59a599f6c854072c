"""This build of torch has no code for a GPU that it is to use.

Why it matters: torch sees the GPU, allocates on it, and fails at the first kernel with "no kernel image is available
for execution on the device". The default wheels lost Pascal (6.x) with torch 2.8 and Volta (7.0) with torch 2.11, and
older wheels know nothing of Blackwell (10.0, 12.0).
"""

from typing import NamedTuple

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.gpu_code import Capability, any_runs_on, is_too_old_for, shown
from gpudoctor.knowledge.pytorch.torch_devices import indices
from gpudoctor.knowledge.pytorch.torch_wheels import advice, cuda_of
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import missing

RELEASED = lazy_re(r"[\d.]+(?:\+cu\d+)?")
"""A wheel of pytorch.org or the package index, by its version."""


class TrainingGpu(NamedTuple):
    name: str
    uuid: str
    capability: Capability


@check("torch-without-gpu-kernels", title="torch has code for every GPU it uses")
def torch_without_gpu_kernels(machine: Snapshot) -> Problems:
    torch = machine.training.torch
    facts = torch.value
    if facts.cuda_version is None or facts.hip_version:
        return
    gpus = devices(machine)
    if not gpus:
        return
    cuda = cuda_of(facts.cuda_version)
    if facts.arch_list:
        lacking = [device for device in gpus if not any_runs_on(facts.arch_list, device.capability, cuda)]
        built = f"for {' '.join(facts.arch_list)}"
    else:
        # A build of one's own, or of NVIDIA's containers, may hold code that the driver compiles for any GPU.
        cuda = cuda if RELEASED.fullmatch(facts.version) else None
        lacking = [device for device in gpus if is_too_old_for(cuda, device.capability)]
        built = f"with CUDA {facts.cuda_version}, which knows no such GPU"
        if not lacking:  # an unknown list is no proof that every GPU is served
            _ = missing("torch._C._cuda_getArchFlags()", "torch did not say which GPUs it was compiled for").value
    if not lacking:
        return
    names = ", ".join(sorted({f"{device.name} ({shown(device.capability)})" for device in lacking}))
    served = [device for device in gpus if device not in lacking]
    text, lines = advice(machine)
    if served:
        # Often a small display card beside the real ones.
        chosen = ",".join(f"GPU-{device.uuid.removeprefix('GPU-')}" for device in served if device.uuid)
        text = f"Hide the GPU from CUDA, or install a build that serves all of them. {text}"
        lines = (*((command("export CUDA_VISIBLE_DEVICES={:name}", chosen),) if chosen else ()), *lines)
    yield Problem(
        severity="warning" if served else "error",
        summary=f"torch {facts.version} has no code for {names}; it was compiled {built}",
        meaning='The first kernel on it fails: "no kernel image is available for execution on the device".',
        evidence=(torch, machine.nvidia.gpus),
        fix=Fix(text, commands=lines),
        gpus=indices(machine, [device.uuid for device in lacking]),
    )


def devices(machine: Snapshot) -> list[TrainingGpu]:
    """The devices that torch may use: those it enumerates, or all of NVML's where it could not."""
    facts = machine.training.torch.value
    if facts.cuda_available and (facts.devices or not facts.device_count):
        known = [(device.name, device.uuid, device.compute_capability) for device in facts.devices]
        return [TrainingGpu(name, uuid, capability) for name, uuid, capability in known if capability is not None]
    return [
        TrainingGpu(gpu.name.value_or(f"GPU {gpu.index}"), gpu.uuid.value_or(""), gpu.compute_capability.value)
        for gpu in machine.nvidia.gpus.value
    ]
