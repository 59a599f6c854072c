"""What several tools say of one machine -> Snapshot."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gpudoctor import __version__
from gpudoctor.read.pasted.part import ToolOutput, has_silent, unread
from gpudoctor.snapshot import Gpu, PciDevice, RdmaDevice, Reading, Snapshot, UnreadableSnapshot, is_left_out, read

MAXIMUM_GPUS = 256
"""Machines with 16 GPUs are rare; more than this is no output of the tools."""


def together(parts: Sequence[ToolOutput], log: Snapshot | None = None) -> Snapshot:
    """One machine of what the tools said of it, the most telling first; `log`: what `nvidia-smi -q` said.

    Raises `UnreadableSnapshot` for more devices than a machine has.
    """
    if any(len(each) > MAXIMUM_GPUS for part in parts for each in (part.gpus or (), part.rdma or (), part.pci or ())):
        raise UnreadableSnapshot(f"it lists more than {MAXIMUM_GPUS} devices of a kind, which no machine has")
    machine = log if log is not None else _blank(parts)
    strangers = [part for part in parts if part.gpus and not _is_of(_first(machine, parts), part.gpus)]
    silent = next((part for part in strangers if has_silent(part.gpus or ())), None)
    if silent is not None and not has_silent(machine.nvidia.gpus.value_or(())):
        alone = together([silent])
        return replace(alone, lacks=(*alone.lacks, "what else was pasted is of another machine"))
    own = [part for part in parts if part not in strangers]
    if log is None and strangers:
        machine = _blank(own)
    for part in own:
        machine = _with(machine, part)
    others = "".join(f"; not read: {part.source} of another machine" for part in strangers)
    telling = log is not None or any(not part.tells for part in parts)
    lacks = [phrase for part in parts for phrase in part.lacks]
    lacks += [f"{part.source} is of another machine than what stands before it" for part in strangers]
    if not telling:
        lacks.append(f"{_listed(parts)}, and not how the devices are")
    return replace(
        machine,
        origin=(_sources(own) + _driver(machine) if log is None else f"{log.origin}, {_sources(own)}".rstrip(", "))
        + others,
        lacks=(*machine.lacks, *dict.fromkeys(lacks)),
    )


def _blank(parts: Sequence[ToolOutput]) -> Snapshot:
    return replace(unread(Snapshot, _sources(parts)), gpudoctor=__version__)


def _sources(parts: Sequence[ToolOutput]) -> str:
    return ", ".join(dict.fromkeys(part.source for part in parts))


def _first(machine: Snapshot, parts: Sequence[ToolOutput]) -> Snapshot:
    """The machine by which the others are known: of the log, else of the first that has GPUs."""
    if machine.nvidia.gpus.is_read:
        return machine
    first = next((part for part in parts if part.gpus), None)
    return machine if first is None else _with(machine, first)


def _listed(parts: Sequence[ToolOutput]) -> str:
    return ", ".join(dict.fromkeys(f"{part.source} tells {part.tells}" for part in parts))


def _driver(machine: Snapshot) -> str:
    driver = machine.nvidia.driver_version
    return f" (driver {driver.value})" if driver.is_read else ""


def _with(machine: Snapshot, part: ToolOutput) -> Snapshot:
    nvidia = machine.nvidia
    fields: dict[str, Reading[Any]] = {
        name: reading for name, reading in part.nvidia.items() if _is_better(reading, getattr(nvidia, name))
    }
    if part.gpus is not None:
        known = nvidia.gpus.value_or(())
        fields["gpus"] = read(nvidia.gpus.source if known else part.source, _merged(known, part.gpus))
    machine = replace(machine, nvidia=replace(nvidia, **fields))
    if part.rdma is not None:
        before = machine.network.rdma_devices
        devices = _rdma_merged(before.value_or(()), part.rdma)
        source = before.source if before.is_read else part.source
        machine = replace(machine, network=replace(machine.network, rdma_devices=read(source, devices)))
    if part.pci is not None:
        on_bus = _pci_merged(machine.accelerators.pci.value_or(()), part.pci)
        machine = replace(machine, accelerators=replace(machine.accelerators, pci=read(part.source, on_bus)))
    if part.modules is not None:
        machine = replace(machine, accelerators=replace(machine.accelerators, kernel_modules=part.modules))
    if part.kernel_log is not None:
        machine = replace(machine, host=replace(machine.host, kernel_log=part.kernel_log))
    if part.troubles:
        machine = replace(machine, told_troubles=read(part.source, part.troubles))
    if part.training:
        machine = replace(machine, training=replace(machine.training, **part.training))
    return machine


def _is_better(new: Reading[Any], old: Reading[Any]) -> bool:
    return is_left_out(old) and not is_left_out(new)


def _merged(known: Sequence[Gpu], more: Sequence[Gpu]) -> tuple[Gpu, ...]:
    result = list(known)
    for gpu in more:
        place = next((place for place, each in enumerate(result) if _is_same(each, gpu)), None)
        if place is None:
            result.append(gpu)
        else:
            result[place] = _completed(result[place], gpu)
    return tuple(sorted(result, key=lambda each: each.index))


def _completed(gpu: Gpu, more: Gpu) -> Gpu:
    facts = _news(gpu, more)
    if gpu.name.value_or("").endswith("...") and more.name.is_read:
        facts["name"] = more.name  # the table shortens names
    return replace(gpu, **facts)


def _rdma_merged(known: Sequence[RdmaDevice], more: Sequence[RdmaDevice]) -> tuple[RdmaDevice, ...]:
    result = {device.name: device for device in known}
    for device in more:
        before = result.get(device.name)
        result[device.name] = device if before is None else _rdma_completed(before, device)
    return tuple(result.values())


def _pci_merged(known: Sequence[PciDevice], more: Sequence[PciDevice]) -> tuple[PciDevice, ...]:
    """The second tool's devices, with what only the first counts of them."""
    errors = {device.bus_id: device.uncorrected_errors for device in known}
    return tuple(
        replace(device, uncorrected_errors=errors.get(device.bus_id)) if device.uncorrected_errors is None else device
        for device in more
    )


def _rdma_completed(device: RdmaDevice, more: RdmaDevice) -> RdmaDevice:
    ports = {port.number: port for port in device.ports}
    for port in more.ports:
        ports[port.number] = (
            replace(ports[port.number], **_news(ports[port.number], port)) if (port.number in ports) else port
        )
    whole = replace(device, **_news(device, more), ports=tuple(ports.values()))
    return whole if whole.interfaces else replace(whole, interfaces=more.interfaces)


def _news(known: Any, more: Any) -> dict[str, Reading[Any]]:
    """The facts that only the second tells."""
    facts = {name: getattr(more, name) for name in more.__struct_fields__}
    return {
        name: fact
        for name, fact in facts.items()
        if isinstance(fact, Reading) and _is_better(fact, getattr(known, name))
    }


def _is_same(gpu: Gpu, other: Gpu) -> bool:
    for field in ("uuid", "pci_bus_id"):
        one, two = getattr(gpu, field), getattr(other, field)
        if one.is_read and two.is_read:
            return bool(one.value == two.value)
    return gpu.index == other.index


def _is_of(machine: Snapshot, gpus: Sequence[Gpu]) -> bool:
    """Whether these may be GPUs of that machine: no number is given to two that differ."""
    by_index = {gpu.index: gpu for gpu in machine.nvidia.gpus.value_or(())}
    return not any(_differ(by_index[gpu.index], gpu) for gpu in gpus if gpu.index in by_index)


def _differ(gpu: Gpu, other: Gpu) -> bool:
    if not _is_same(gpu, other):
        return True
    one, two = gpu.name.value_or(""), other.name.value_or("")
    shorter = min(one.removesuffix("..."), two.removesuffix("..."), key=len)
    return bool(one and two) and not (one.startswith(shorter) and two.startswith(shorter))


def with_complaint(machine: Snapshot, complaint: Snapshot | None) -> Snapshot:
    """The machine with what nvidia-smi complained of in the same text: that is why somebody pasted it.

    A GPU that it could not open is so, whatever a row says of it; why it could not start stands beside the GPUs.
    """
    if complaint is None:
        return machine
    nvidia, said = machine.nvidia, complaint.nvidia
    if not said.gpus.is_read or not nvidia.gpus.is_read:
        gpus = nvidia.gpus if nvidia.gpus.is_read else said.gpus
        return replace(machine, nvidia=replace(nvidia, init_code=said.init_code, gpus=gpus))
    marked = list(nvidia.gpus.value)
    for gpu in said.gpus.value:
        places = [place for place, each in enumerate(marked) if _at(each, gpu)]
        if places:
            marked[places[0]] = replace(gpu, index=marked[places[0]].index)
            continue
        free = set(range(len(marked) + 1)) - {each.index for each in marked}
        marked.append(replace(gpu, index=min(free)))
    return replace(machine, nvidia=replace(nvidia, gpus=read(nvidia.gpus.source, tuple(marked))))


def _at(gpu: Gpu, other: Gpu) -> bool:
    return gpu.pci_bus_id.value_or("-") == other.pci_bus_id.value_or("")


__all__ = ["together", "with_complaint"]
