"""Which NVML GPU a device of torch is."""

from gpudoctor.snapshot import Gpu, Snapshot


def gpu_with_uuid(machine: Snapshot, uuid: str) -> Gpu | None:
    """The GPU of this UUID, with or without its "GPU-" (torch leaves it out); None for MIG devices and unknown ones."""
    wanted = uuid.removeprefix("GPU-")
    gpus = machine.nvidia.gpus.value_or(())
    return next((gpu for gpu in gpus if wanted and gpu.uuid.value_or("").removeprefix("GPU-") == wanted), None)


def indices(machine: Snapshot, uuids: list[str]) -> tuple[int, ...]:
    """NVML indices of the GPUs of these UUIDs, those that are known."""
    found = [gpu_with_uuid(machine, uuid) for uuid in uuids]
    return tuple(gpu.index for gpu in found if gpu is not None)
