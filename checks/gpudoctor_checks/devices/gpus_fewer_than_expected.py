"""There are fewer GPUs than were said to be here.

Why it matters: a job that counts on them does not start, or its ranks wait for one that never comes. What is expected
is said with --expect (8xH100, gpus=8); in a container, by the GPUs that it was given (NVIDIA_VISIBLE_DEVICES); where
there is no accelerator at all, by SLURM's count and by CUDA_VISIBLE_DEVICES. Where there are some, these two and the
PCI bus have checks of their own.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import AMD
from gpudoctor.knowledge.explaining import DRIVER_MISSING, GPU_LOST, GPUS_HIDDEN
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import visible_count, whole_number
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Expectation, NotRead, Reading, read

GIVEN = "NVIDIA_VISIBLE_DEVICES"
ASKED = ("SLURM_GPUS_ON_NODE", VARIABLE)
DEVICE = lazy_re(r"GPU-[0-9A-Fa-f-]{8,}|[0-9]{1,3}")


@check(
    "gpus-fewer-than-expected",
    title="There are as many GPUs as were expected",
    follows=(*DRIVER_MISSING, *GPU_LOST, "gpu-count-below-pci", *GPUS_HIDDEN),
)
def gpus_fewer_than_expected(machine: Snapshot) -> Problems:
    wanted, source = _wanted(machine)
    if wanted.kind == "cpu":
        return
    names = _names(machine)
    fitting = [name for name in names if wanted.is_model(name)]
    seen, hidden = len(fitting), False
    if machine.expected.is_read and seen >= wanted.count:
        shown = _visible(machine)
        if shown is not None and shown < wanted.count:
            seen, hidden = shown, True
    if seen >= wanted.count:
        return
    others = sorted({name for name in names if name not in fitting})
    yield Problem(
        severity="error",
        summary=f"{counted(seen, 'GPU')} of {wanted.said()} expected ({source.source})"
        + (" can be used: the others are hidden" if hidden else "")
        + (f"; there are others: {', '.join(others)}" if others else ""),
        meaning="A job that counts on the missing GPU does not start, or waits for its rank until it times out.",
        evidence=(source, machine.nvidia.gpus),
        fix=Fix.of(
            "See what hides them."
            if hidden
            else "See whether the bus shows them all and what the driver says; in a container or job, ask for them.",
            *((command("gpudoctor devices"),) if hidden else (command("nvidia-smi -L"),)),
            command("lspci -nn | grep -i nvidia"),
            command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
        ),
    )


def _wanted(machine: Snapshot) -> tuple[Expectation, Reading[str]]:
    """What is expected, and who says so. Raises `NotRead` where nobody does."""
    said = machine.expected
    if said.is_read:
        return said.value, read(said.source, said.value.said())
    if machine.host.container.value != "none":
        text = machine.environment.value.get(GIVEN, "")
        devices = [part.strip() for part in text.split(",")]
        if all(DEVICE.fullmatch(part) for part in devices):
            return Expectation("gpus", len(set(devices))), read(f"environment {GIVEN}", text)
    if machine.nvidia.gpus.missing_kind == "absent" and not machine.accelerators.pci.value:
        for name in ASKED:
            text = machine.environment.value.get(name, "")
            if count := _count(name, text):
                return Expectation("gpus", count), read(f"environment {name}", text)
    return said.value, read(said.source, "")


def _count(name: str, text: str) -> int:
    """How many GPUs the variable speaks of; 0 where it names none, or in a form that is not theirs."""
    if name != VARIABLE:
        return whole_number(text) or 0
    devices = [part.strip() for part in text.split(",")]
    return len(set(devices)) if all(DEVICE.fullmatch(part) for part in devices) else 0


def _names(machine: Snapshot) -> list[str]:
    """The accelerators that can be used, by name. Raises `NotRead` where that is not known."""
    gpus = machine.nvidia.gpus
    torch = machine.training.torch.value_or(None)
    devices = torch.devices if torch is not None else ()
    if gpus.missing_kind == "absent":
        return [device.name for device in devices]  # AMD's GPUs are called cuda too
    others = [device.name for device in devices if device.kind != "cuda"]
    pci = machine.accelerators.pci
    if not gpus.is_read and pci.is_read and (amd := [device.model for device in pci.value if device.vendor == AMD]):
        return amd  # of a file that shows these
    return [gpu.name.value_or("") for gpu in gpus.value if gpu.name.is_read or gpu.uuid.is_read] + others


def _visible(machine: Snapshot) -> int | None:
    """How many a CUDA program gets; None where that is not known, or other accelerators are meant."""
    if not machine.nvidia.gpus.value_or(()):
        return None
    if any(gpu.mig_mode.value_or(False) for gpu in machine.nvidia.gpus.value):
        return None
    try:
        return visible_count(machine)
    except NotRead:
        return None
