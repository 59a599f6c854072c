"""What a program started now, in the recorded environment, gets: for the checks."""

from gpudoctor.knowledge.visible.agreement import enumerated, error_of
from gpudoctor.knowledge.visible.devices import VARIABLE, select_on
from gpudoctor.knowledge.visible.selection import Selection
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.snapshot import CudaAnswer, Reading, Snapshot, missing, read


def selection(machine: Snapshot) -> Selection:
    """What the recorded CUDA_VISIBLE_DEVICES selects. Raises `NotRead` without the environment or the GPUs."""
    return select_on(machine, machine.environment.value.get(VARIABLE))


def variable(machine: Snapshot, name: str) -> Reading[str]:
    """One environment variable as evidence; "(not set)" where it is not. Raises `NotRead` without an environment."""
    value = machine.environment.value.get(name)
    # Bytes that are no UTF-8 arrive as lone surrogates, which JSON cannot carry.
    said = "(not set)" if value is None else value.encode("utf-8", "backslashreplace").decode()
    return read(f"environment {name}", said)


def short(uuid: str) -> str:
    """A GPU's UUID as people cut it; MIG UUIDs stay whole, for CUDA is not said to take their beginnings."""
    return uuid[:12] if uuid.startswith("GPU-") else uuid


def gpu_list(machine: Snapshot) -> Reading[str]:
    """The GPUs that NVML lists, as evidence of one line. Raises `NotRead`."""
    gpus = machine.nvidia.gpus
    named = listed(f"{gpu.index} {short(gpu.uuid.value_or('(UUID not read)'))}" for gpu in gpus.value)
    return read(gpus.source, f"{counted(len(gpus.value), 'GPU')}: {named}" if named else "no GPU")


def driver_list(answer: Reading[CudaAnswer]) -> Reading[str]:
    """The devices that libcuda enumerates, as evidence of one line; as it is when it was not read."""
    if not answer.is_read:
        return missing(answer.source, answer.reason, answer.missing_kind or "failed")
    devices = enumerated(answer.value)
    if devices is None:
        return read(answer.source, error_of(answer.value))
    named = listed(short(device.uuid or device.pci_bus_id) for device in devices)
    return read(answer.source, f"{counted(len(devices), 'device')}: {named}" if named else "no device")


def visible_count(machine: Snapshot) -> int:
    """How many CUDA devices a program gets: by the driver's own answer, by CUDA's rules where it gave none.

    Raises `NotRead` when neither can be told.
    """
    answer = machine.cuda.visible.value_or(None)
    devices = None if answer is None else enumerated(answer)
    return len(selection(machine).devices) if devices is None else len(devices)


def whole_number(text: str | None) -> int | None:
    """A count in a variable of a launcher or scheduler; None for anything else."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) < 7 else None
