"""The answer of `gpudoctor devices`: what a CUDA program gets under a value of CUDA_VISIBLE_DEVICES."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct, structs

from gpudoctor.check import Fix, Severity
from gpudoctor.command import Command
from gpudoctor.envelope import Answer, Seen, Stated
from gpudoctor.errors import CannotTell
from gpudoctor.knowledge.environment import encodable
from gpudoctor.knowledge.visible.agreement import agrees, enumerated, error_of
from gpudoctor.knowledge.visible.devices import VARIABLE, select_on
from gpudoctor.knowledge.visible.selection import CHECK_IDS, OF_AN_ENTRY, Note, Selection, SelectionKind
from gpudoctor.knowledge.visible.words import advice, line_to_paste, meaning
from gpudoctor.snapshot import CudaAnswer, NotRead, Reading, Snapshot

HARMLESS: tuple[SelectionKind, ...] = ("ignored-text", "number-format", "mig-limit", "order-guess", "order-invalid")
"""Of a value that mostly selects what it names all the same."""


class SeenDevice(Struct, frozen=True):
    """A device as the program sees it: `cuda` is its ordinal there, `nvml` its index in nvidia-smi."""

    cuda: int
    nvml: int | None
    """None for a device that NVML does not list."""
    uuid: str | None
    """Of the GPU; for a MIG device, of the GPU it is a part of. None where it could not be read, as the next two."""
    pci: str | None
    name: str | None
    mig: str | None
    """UUID of the MIG device; None for a whole GPU."""


class Trouble(Struct, frozen=True):
    """Something wrong with the value, or with the order that its numbers count in."""

    entry: str | None
    """The entry as it stands in the value; None where the whole is meant."""
    position: int | None
    """Of the entry, from 0."""
    kind: SelectionKind
    problem: str
    meaning: str
    fix: str
    command: Command | None
    suggested_value: str | None
    """What the whole value was probably meant to be on this machine; None where that cannot be told."""
    lost: tuple[str, ...]
    """Entries that select nothing because of it."""
    candidates: tuple[str, ...]
    """UUIDs that an ambiguous prefix fits."""
    certain: bool
    """Whether what CUDA does here is documented or was observed; else it is an assumption."""
    is_fault: bool | None = None
    """Whether the program does not get what the value means; None in answers of versions that did not say so."""


class CountingOrder(Struct, frozen=True):
    """The order in which CUDA counts the GPUs."""

    rule: str
    """FASTEST_FIRST or PCI_BUS_ID."""
    certain: bool
    doubt: str
    """Why it is not certain; empty when it is."""


class DriverWord(Struct, frozen=True):
    """What libcuda itself said for this value. `visible` is None when it gave no list; `reason` says why."""

    visible: tuple[str, ...] | None
    reason: str


class DevicesAnswer(Answer, frozen=True, kw_only=True):
    """What `gpudoctor devices` says."""

    command: ClassVar[str] = "devices"
    signs: ClassVar[tuple[str, ...]] = ("visible", "device_order")
    cuda_visible_devices: str | None
    """None: the variable is not set."""
    visible: tuple[SeenDevice, ...]
    problems: tuple[Trouble, ...]
    certain: bool
    device_order: CountingOrder
    driver: DriverWord
    agrees: bool | None
    """Whether libcuda gave the same devices in the same order; None when it was not asked or gave no list."""
    gpus: int
    """How many GPUs CUDA can reach on this machine."""

    @property
    def exit_status(self) -> int:
        """1 when the program does not get what the value names, or not what CUDA's rules say."""
        return int(self.agrees is False or any(map(_is_fault, self.problems)))

    def stated(self) -> Iterator[Stated]:
        severity: Severity
        for problem in sorted(self.problems, key=_is_fault, reverse=True):
            severity = "error" if _is_fault(problem) else "warning"
            yield Stated(
                id=CHECK_IDS.get(problem.kind, OF_AN_ENTRY),
                severity=severity,
                subject=VARIABLE if problem.entry is None else f"{VARIABLE} entry {problem.entry!r}",
                summary=problem.problem,
                meaning=problem.meaning or None,
                fix=Fix(problem.fix, () if problem.command is None else (problem.command,)),
            )
        if self.agrees is False:
            yield Stated(
                id="cuda-visible-devices-disagrees",
                severity="error",
                summary="the driver gives a program other devices than CUDA's rules say",
                evidence=(Seen("libcuda", ", ".join(self.driver.visible or ()) or self.driver.reason),),
            )

    def without_lines(self) -> "DevicesAnswer":
        bare = (structs.replace(problem, command=None, suggested_value=None) for problem in self.problems)
        return structs.replace(self, problems=tuple(bare))


def _is_fault(trouble: Trouble) -> bool:
    return trouble.is_fault if trouble.is_fault is not None else bool(trouble.lost) or trouble.kind not in HARMLESS


class NoGpus(CannotTell):
    """There is no list of GPUs to select from; the message is one line for the user."""


def recorded_value(machine: Snapshot) -> str | None:
    """CUDA_VISIBLE_DEVICES as the snapshot has it, None when unset. Raises `NotRead`."""
    return machine.environment.value.get(VARIABLE)


def what_if(machine: Snapshot, value: str | None, driver: Reading[CudaAnswer]) -> DevicesAnswer:
    """What a program gets under `value`; `driver` is libcuda's own answer for that value. Raises `NoGpus`."""
    try:
        selection = select_on(machine, value)
    except NotRead as error:
        raise NoGpus(f"no GPUs to select from: {error}") from None
    order = selection.enumeration
    return DevicesAnswer(
        cuda_visible_devices=None if value is None else encodable(value),
        visible=tuple(
            SeenDevice(
                device.cuda, device.nvml, device.uuid or None, device.pci or None, device.name or None, device.mig
            )
            for device in selection.devices
        ),
        problems=tuple(_trouble(note, selection, machine) for note in selection.notes),
        certain=selection.certain,
        device_order=CountingOrder(order.order, not order.doubt, order.doubt),
        driver=_driver(driver),
        agrees=agrees(selection, driver.value) if driver.is_read else None,
        gpus=len(order.slots),
    )


def _means_others(note: Note, selection: Selection, machine: Snapshot) -> bool:
    """As a check judges it (cuda-visible-devices-entry-invalid): of "0-3" CUDA takes GPU 0 alone, of "0gpu" too."""
    if note.lost or note.kind not in HARMLESS:
        return True
    if note.kind != "ignored-text":
        return False
    return selection.suggested is None or select_on(machine, selection.suggested).devices != selection.devices


def _trouble(note: Note, selection: Selection, machine: Snapshot) -> Trouble:
    return Trouble(
        entry=None if note.entry is None else encodable(note.entry),
        position=note.position,
        kind=note.kind,
        problem=note.problem,
        meaning=meaning(note, selection),
        fix=advice(note, selection),
        command=line_to_paste(note, selection),
        suggested_value=selection.suggested if note.position is not None else None,
        lost=tuple(encodable(text) for text in note.lost),
        candidates=note.candidates,
        certain=note.certain,
        is_fault=_means_others(note, selection, machine),
    )


def _driver(answer: Reading[CudaAnswer]) -> DriverWord:
    if not answer.is_read:
        return DriverWord(None, f"{answer.source}: {answer.reason}")
    devices = enumerated(answer.value)
    if devices is None:
        return DriverWord(None, error_of(answer.value))
    return DriverWord(tuple(device.uuid or device.pci_bus_id for device in devices), "")
