"""What decides about a machine, and whether it was seen: what the verdict may rest on.

A training needs accelerators, their driver, and a torch with kernels for them. Where one of these was not read, no
number of healthy checks makes the machine ready. A choice of checks, and a file that holds a part of a machine, are
judged as such.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gpudoctor.knowledge.gpus.gpu_models import is_on_baseboard
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.lazy import lazy_re
from gpudoctor.report import Result, Sight
from gpudoctor.snapshot import NEVER_IN_OUTPUT, Gpu, Reading, Snapshot, is_cut_off

NONE = "no accelerator: a training here runs on the CPU (--expect cpu says that it is meant to)"
NOTHING = "nothing could be examined"
NO_CHECKS = "no check is installed with this gpudoctor, as where it runs from a source folder: python -m pip install ."
HERE = Snapshot().origin
OF_A_READER = lazy_re(r"reader (?:of |[^:]{1,40}: the reader failed: )")
"""Where a reader gave no answer: its process failed, or it by itself did (read/local.py)."""
RDMA = "rdma_devices"
KERNEL_LOG = "kernel_log"
"""What tells of errors alone: who has it has seen nothing of the host."""
OF_GPUS = ("gpu", "driver")
"""The groups of checks that a file of nvidia-smi can answer."""
WHOLE_SECTION = {
    "name": "name",
    "memory_total_bytes": "memory",
    "pcie_width": "PCIe link",
    "clock_event_reasons": "clocks",
    "utilization_gpu_percent": "utilisation",
    "ecc_mode": "ECC mode",
    "temperature_celsius": "temperature",
    "processes": "processes",
}
"""What every whole section of `nvidia-smi -q` has, from its beginning to its end, of any driver from 367 to 610."""
STATE = tuple(name for name in WHOLE_SECTION if name not in ("name", "processes"))
"""On a Jetson, nvidia-smi has N/A for each of them."""
WHOLE_BOARDS = (1, 2, 4, 8, 16)
"""GPUs of SXM boards and of the virtual machines that are cut of them."""


def sight(machine: Snapshot, results: Sequence[Result], names: Sequence[str] = ()) -> Sight:
    """What a verdict on these results rests on; `names`: the checks and groups that were asked for."""
    seen = _parts(machine)
    if not results:
        return Sight(selected=tuple(names), seen=seen, lacking=(NO_CHECKS,))
    if not any(result.outcome in ("ok", "problem") for result in results):
        return Sight(selected=tuple(names), seen=seen, lacking=(*_why_nothing(machine), NOTHING))
    if names:
        lacking = [*unseen(machine, results)]
        if machine.origin != HERE and any(result.group in OF_GPUS for result in results):
            lacking += _cut(machine)
        if machine.origin == HERE and all(result.group in OF_GPUS for result in results):
            # no GPU and no driver is what a node looks like whose GPUs are gone from the bus
            lacking += [each for each in _accelerators(machine) if each == NONE and not _on_cpu(machine)]
        return Sight(selected=tuple(names), seen=seen, lacking=(*lacking, *_mostly_blind(results)))
    if machine.origin != HERE:
        left_out = tuple(part for part in ("GPUs", "torch", "host", "network") if part not in seen)
        if "RDMA ports" in seen:
            left_out = (*left_out[:-1], "the rest of the network")
        of_gpus = [result for result in results if result.group in OF_GPUS]
        lacking = [*_cut(machine), *(_mostly_blind(of_gpus) if seen == ("GPUs",) else ())]
        return Sight(seen=seen, left_out=left_out, why_left_out="not in this file", lacking=tuple(lacking))
    on_cpu = _on_cpu(machine)
    lacking = [*unseen(machine, results), *(() if on_cpu else _accelerators(machine)), *_torch(machine, on_cpu=on_cpu)]
    if not lacking:
        lacking = [*_mostly_blind(results)]
    without_torch = _is_not_asked(machine.training.torch_probe) and not machine.training.torch.is_read
    return Sight(
        seen=tuple(part for part in seen if not (without_torch and part == "torch")),
        left_out=("torch",) if without_torch else (),
        why_left_out="not asked (--no-torch)" if without_torch else "",
        lacking=tuple(dict.fromkeys(lacking)),
        on_cpu=on_cpu,
    )


def _on_cpu(machine: Snapshot) -> bool:
    return machine.expected.is_read and machine.expected.value.kind == "cpu"


def _why_nothing(machine: Snapshot) -> Iterable[str]:
    if machine.origin != HERE and not _parts(machine):
        yield from machine.lacks or (f"nothing about a machine is in {machine.origin}",)


def unseen(machine: Snapshot, results: Iterable[Result]) -> tuple[str, ...]:
    """Which of /proc, /sys and NVML could not be read, with the reason; empty: none.

    Each of them feeds dozens of checks: a verdict without one says nothing. What no check of the report asked for
    does not count, nor what a file of another tool never holds.
    """
    if machine.origin != HERE:
        return ()
    host, bus, gpus = machine.host, machine.accelerators.pci, machine.nvidia.gpus
    decisive = {"/proc": (host.system, host.memory_total_bytes), "/sys": (bus,), "NVML": (gpus,)}
    blind = (result for result in results if result.outcome in ("skipped", "crashed", "problem"))
    asked = {reason for result in blind for reason in result.reasons}
    found = []
    for name, readings in decisive.items():
        lost = (
            reading
            for reading in readings
            if not reading.is_read and reading.missing_kind not in ("absent", "not-asked")
        )
        reading = next((reading for reading in lost if f"{reading.source}: {reading.reason}" in asked), None)
        if reading is not None:
            found.append(f"{name} could not be read ({reading.source}: {reading.reason})")
    if (dead := sorted(filter(OF_A_READER.match, asked))) and not found:
        found.append(f"{counted(len(dead), 'reader')} of this machine gave no answer ({dead[0]})")
    return tuple(found)


def _parts(machine: Snapshot) -> tuple[str, ...]:
    """The parts of a machine of which something was read."""
    nvidia, training = machine.nvidia, machine.training
    parts = {
        "GPUs": _has_any(nvidia, machine.accelerators) or nvidia.gpus.missing_kind == "absent",
        "torch": _has_any(training) or training.torch_files.missing_kind == "absent",
        "host": any(name != KERNEL_LOG for name in _read_of(machine.host)),
        "network": any(name != RDMA for name in _read_of(machine.network)),
        "RDMA ports": machine.origin != HERE and tuple(_read_of(machine.network)) == (RDMA,),
    }
    return tuple(name for name, is_there in parts.items() if is_there)


def _has_any(*sections: Struct) -> bool:
    return any(_read_of(*sections))


def _read_of(*sections: Struct) -> Iterator[str]:
    """The names of the facts that were read."""
    for section in sections:
        for name in section.__struct_fields__:
            reading = getattr(section, name)
            if isinstance(reading, Reading) and reading.is_read:
                yield name


def _is_not_asked(reading: Reading[object]) -> bool:
    return reading.missing_kind == "not-asked"


def _mostly_blind(results: Sequence[Result]) -> Iterable[str]:
    blind = sum(
        result.outcome == "crashed" or (result.outcome == "skipped" and not _is_of_another_kind(result))
        for result in results
    )
    if blind > sum(result.outcome in ("ok", "problem") for result in results):
        yield f"{blind} of {counted(len(results), 'check')} could not look"


def _is_of_another_kind(result: Result) -> bool:
    """Whether it asks for what such output never holds."""
    return any(reason.endswith(NEVER_IN_OUTPUT) for reason in result.reasons)


def _cut(machine: Snapshot) -> Iterable[str]:
    """Of pasted output: what it should hold and does not."""
    if machine.lacks:
        yield from machine.lacks
        return
    gpus, attached = machine.nvidia.gpus, machine.nvidia.attached
    if not gpus.is_read:
        if machine.nvidia.init_code.value_or(1) == 0:
            yield f"the file is cut: {gpus.reason}"
        return
    if attached.is_read and len(gpus.value) < attached.value:
        yield f"the file is a part: {len(gpus.value)} of {attached.value} GPUs are in it"
    for gpu in gpus.value:
        lost = [words for name, words in WHOLE_SECTION.items() if is_cut_off(getattr(gpu, name))]
        if len(lost) == len(WHOLE_SECTION):
            continue  # not opened: a fault of its own, or cut before its first line
        if gpu.name.is_read and not any(getattr(gpu, name).is_read for name in STATE):
            yield f"of GPU {gpu.index} ({gpu.name.value}) a name is told and no state"
            return
        if lost:
            yield f"the file is cut or a part: {listed(lost)} of GPU {gpu.index} {_are(lost)} not in it"
            return


def _are(words: Sequence[str]) -> str:
    return "is" if len(words) == 1 and words[0] != "processes" else "are"


def _accelerators(machine: Snapshot) -> Iterable[str]:
    gpus = machine.nvidia.gpus
    if gpus.is_read and gpus.value:
        yield from _gpus(machine, gpus.value)
        return
    if not gpus.is_read and gpus.missing_kind != "absent":
        yield f"the GPUs could not be read ({gpus.source}: {gpus.reason})"
        return
    cuda, torch = machine.cuda.all.value_or(None), machine.training.torch.value_or(None)
    if cuda is not None and cuda.devices:
        return  # a Jetson: the GPU is part of the chip
    if torch is not None and (torch.device_count or torch.xpu_available):
        return
    if machine.accelerators.pci.value_or(()):
        if not _is_not_asked(machine.training.torch_probe):
            yield "torch uses none of the accelerators on the bus, and gpudoctor asks no other driver"
        return
    yield NONE


def _gpus(machine: Snapshot, gpus: Sequence[Gpu]) -> Iterable[str]:
    if not machine.nvidia.driver_version.is_read:
        yield f"the driver's version could not be read ({machine.nvidia.driver_version.reason})"
    for gpu in gpus:
        # What is denied belongs to others.
        if not gpu.name.is_read and not gpu.uuid.is_read and gpu.uuid.missing_kind != "denied":
            yield f"GPU {gpu.index} could not be read ({gpu.uuid.reason})"
    on_board = [gpu for gpu in gpus if gpu.name.is_read and is_on_baseboard(gpu.name.value)]
    is_given_a_part = machine.host.container.value_or("none") != "none" or "SLURM_JOB_ID" in (
        machine.environment.value_or({})
    )
    if (
        len(on_board) == len(gpus)
        and len(gpus) not in WHOLE_BOARDS
        and not (is_given_a_part or machine.expected.is_read)
    ):
        yield (
            f"{len(gpus)} GPUs were found, and boards of {gpus[0].name.value} carry 4 or 8; --expect "
            f"gpus={len(gpus)} says that no more are meant"
        )


def _torch(machine: Snapshot, *, on_cpu: bool) -> Iterable[str]:
    training = machine.training
    if _is_not_asked(training.torch_probe) and not training.torch.is_read:
        return
    if not training.torch.is_read:
        if training.torch_files.missing_kind == "absent":
            yield "the training interpreter has no torch"
        else:
            yield f"torch could not be examined ({training.torch.reason})"
        return
    facts, gpus = training.torch.value, machine.nvidia.gpus.value_or(())
    if on_cpu or not gpus or facts.hip_version:
        return
    if facts.cuda_version is not None and not facts.arch_list:
        yield "for which GPUs torch has kernels is not known"
    if not facts.cuda_available:
        yield f"torch can use none of the {len(gpus)} GPUs"
    elif any(device.kind == "cuda" and device.compute_capability is None for device in facts.devices):
        yield "whether torch has kernels for these GPUs is not known: it does not say their compute capability"
