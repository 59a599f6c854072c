"""Which NVML GPU a device of torch is."""

from collections.abc import Iterable

from gpudoctor.snapshot import AmpTarget, Gpu, SmokeTarget, Snapshot


def gpu_with_uuid(machine: Snapshot, uuid: str) -> Gpu | None:
    """The GPU of this UUID, with or without its "GPU-" (torch leaves it out); None for MIG devices and unknown ones."""
    wanted = uuid.removeprefix("GPU-")
    gpus = machine.nvidia.gpus.value_or(())
    return next((gpu for gpu in gpus if wanted and gpu.uuid.value_or("").removeprefix("GPU-") == wanted), None)


def indices(machine: Snapshot, uuids: Iterable[str]) -> tuple[int, ...]:
    """NVML indices of the GPUs of these UUIDs, those that are known."""
    gpus = [gpu_with_uuid(machine, uuid) for uuid in uuids]
    return tuple(gpu.index for gpu in gpus if gpu is not None)


def gpu_tested(machine: Snapshot, target: SmokeTarget | AmpTarget) -> Gpu | None:
    """The GPU that a test of --deep ran on: by the UUID it reported, else by torch's list of devices."""
    result = target.result.value_or(None) if isinstance(target, SmokeTarget) else None
    facts = machine.training.torch.value_or(None)
    if result is not None and result.gpu_uuid:
        return gpu_with_uuid(machine, result.gpu_uuid)
    uuids = [device.uuid for device in facts.devices if f"cuda:{device.ordinal}" == target.device] if facts else []
    return gpu_with_uuid(machine, uuids[0]) if uuids else None


def named(target: SmokeTarget | AmpTarget, gpu: Gpu | None) -> str:
    """ "cuda:3 (nvidia-smi's GPU 5)", or torch's name alone where NVML does not know it."""
    return f"{target.device} (nvidia-smi's GPU {gpu.index})" if gpu else target.device
