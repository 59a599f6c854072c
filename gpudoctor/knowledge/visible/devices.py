"""Which devices a CUDA program gets under a value of CUDA_VISIBLE_DEVICES, and what is wrong with the value.

The driver's own answer is the truth; this explains it, and answers "what if". Rules and their sources: CUDA
Programming Guide 5.2.1.1 (list order is the enumeration order, the list ends at the first invalid entry, empty
hides all, unique UUID prefixes), MIG User Guide (MIG devices), pytorch#92315 (torch's test table, validated on
driver 525.60.13: duplicates give no device, "1gpu2" is 1), ray#28064 (index out of range, duplicates). Where no
source settles what CUDA does, the answer is marked as not certain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.knowledge.visible.entries import WHITESPACE, DeviceEntry, entries, shown
from gpudoctor.knowledge.visible.order import Enumeration, Instance, Slot, enumerate_gpus
from gpudoctor.knowledge.visible.repair import HIDING, looks_like_uuid, repaired, tuple_form
from gpudoctor.knowledge.visible.selection import Note, Selection, SelectionKind, VisibleDevice
from gpudoctor.snapshot import CudaAnswer, Gpu, Snapshot

VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER_VARIABLE = "CUDA_DEVICE_ORDER"

FIRST_MIG_UUID_DRIVER = 470
"""MIG-<uuid> is understood from 470.42.01; before it, the form MIG-GPU-<uuid>/<gi>/<ci> (MIG User Guide)."""
FIRST_SEVERAL_MIG_DRIVER = 570
"""From R570 a process can have one compute instance of each GPU instance; before it, one in all (MIG User Guide)."""


def select_on(machine: Snapshot, value: str | None) -> Selection:
    """What `value` selects on a machine, under its CUDA_DEVICE_ORDER. Raises `NotRead` without a list of GPUs."""
    environment = machine.environment.value_or(None)
    return select(
        value,
        machine.nvidia.gpus.value,
        order=None if environment is None else environment.get(ORDER_VARIABLE),
        known=machine.cuda.all.value_or(None),
        driver_version=machine.nvidia.driver_version.value_or(""),
    )


def select(
    value: str | None,
    gpus: Sequence[Gpu],
    *,
    order: str | None = None,
    known: CudaAnswer | None = None,
    driver_version: str = "",
) -> Selection:
    """What a CUDA program gets under `value` (None: not set). Never raises, whatever the value.

    `order` is CUDA_DEVICE_ORDER (None: not set), `known` libcuda's answer without CUDA_VISIBLE_DEVICES under that
    order, `driver_version` as NVML gives it ("580.95.05"); an empty one is taken for a current driver.
    """
    enumeration = enumerate_gpus(gpus, order, known)
    driver = _major(driver_version)
    return _Selector(enumeration, tuple(gpus), driver, known).select(value)


def _major(driver_version: str) -> int | None:
    digits = driver_version.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else None


class _Pick(NamedTuple):
    """What one entry came to: a device, or why the list ends here."""

    slot: Slot | None
    instance: Instance | None = None
    note: Note | None = None
    certain: bool = True


class _Selector:
    """One machine, asked about a value."""

    def __init__(
        self, enumeration: Enumeration, gpus: tuple[Gpu, ...], driver: int | None, known: CudaAnswer | None
    ) -> None:
        self.enumeration = enumeration
        self.slots = enumeration.slots
        self.gpus = gpus
        self.driver = driver
        self.known = known if known is not None and known.error == 0 else None
        self.several_mig = driver is None or driver >= FIRST_SEVERAL_MIG_DRIVER

    def select(self, value: str | None) -> Selection:
        notes = self._order_notes()
        if value is None:
            devices, certain = self._everything()
            ordinals = True
            suggested = None
            if certain:
                notes = [note for note in notes if note.kind != "order-guess"]
        else:
            parsed = entries(value)
            picks, value_notes = self._walk(value, parsed)
            devices, limit = self._within_mig_limits(picks)
            value_notes += limit
            ordinals = any(entry.form == "ordinal" for entry in parsed[: len(picks) + 1])
            certain = all(pick.certain for pick in picks) and all(note.certain for note in value_notes)
            wrong = any(note.kind not in ("mig-parent", "number-format") for note in value_notes)
            suggested = repaired(value, self.slots, several_mig=self.several_mig) if wrong else None
            if not any(entry.form == "ordinal" for entry in parsed):
                notes = [note for note in notes if note.kind != "order-guess"]  # UUIDs do not depend on the order
            notes = value_notes + notes
            certain = certain and (not ordinals or not self.enumeration.doubt)
            # The MIG guide can be read so that an old driver hides whole GPUs even when they alone are named.
            certain = certain and (self.several_mig or not self._has_mig() or any(pair[1] for pair in devices))
        return Selection(
            value=value,
            devices=tuple(_device(cuda, slot, instance) for cuda, (slot, instance) in enumerate(devices)),
            notes=tuple(notes),
            enumeration=self.enumeration,
            suggested=suggested,
            certain=certain,
            uses_ordinals=ordinals,
        )

    def _has_mig(self) -> bool:
        return any(slot.mig_mode and slot.instances for slot in self.slots)

    # -- the list ------------------------------------------------------------------------------------------------

    def _walk(self, value: str, parsed: list[DeviceEntry]) -> tuple[list[_Pick], list[Note]]:
        """The entries up to the one that ends the list, and what there is to say of them."""
        if value.strip(WHITESPACE + ",").lower() in HIDING:
            return [], [_hiding(value)]
        picks: list[_Pick] = []
        notes: list[Note] = []
        seen: dict[tuple[str, str, int | None, str], int] = {}
        for entry in parsed:
            pick = self._pick(entry, parsed[0])
            if pick.slot is None:
                behind = parsed[entry.position :]
                if pick.note is not None and any(later.form != "blank" for later in behind):
                    notes.append(pick.note._replace(lost=tuple(later.text for later in behind)))
                break
            identity = (
                pick.slot.uuid,
                pick.slot.pci,
                pick.slot.nvml,
                "" if pick.instance is None else pick.instance.uuid or str(pick.instance),
            )
            if identity in seen:
                first = seen[identity]
                notes.append(
                    Note(
                        "duplicate",
                        entry.text,
                        entry.position,
                        f"{_entry(entry)} names the same device as entry {first + 1} ({shown(parsed[first].text)})",
                        lost=tuple(other.text for other in parsed),
                        certain=pick.certain and all(earlier.certain for earlier in picks),
                    )
                )
                return [], notes
            seen[identity] = entry.position
            picks.append(pick)
            if pick.note is not None:
                notes.append(pick.note)
        # CUDA might look for duplicates behind the end of the list as well (torch's parser does): not known.
        if notes and picks and _repeats(parsed[len(picks) :], parsed[: len(picks)]):
            notes[-1] = notes[-1]._replace(certain=False)
        return picks, notes

    def _pick(self, entry: DeviceEntry, first: DeviceEntry) -> _Pick:
        if entry.form == "blank":
            return _ends(entry, "blank", f"entry {entry.position + 1} is blank", certain=not entry.text)
        if entry.form == "text":
            return self._text(entry)
        if not self._goes_with(entry, first):
            if entry.form == "ordinal" and looks_like_uuid(entry.text, self.slots):
                return self._missing_prefix(entry)
            have, other = _FORMS[first.form], _FORMS[entry.form]
            return _ends(entry, "mixed-forms", f"{_entry(entry)} is a {other} in a list of {have}s", certain=False)
        if entry.form == "ordinal":
            return self._ordinal(entry)
        return self._gpu_uuid(entry) if entry.form == "gpu-uuid" else self._mig_uuid(entry)

    def _goes_with(self, entry: DeviceEntry, first: DeviceEntry) -> bool:
        if entry.form == first.form:
            return True
        # From R570, MIG devices and whole GPUs can be had together (MIG User Guide); both are UUIDs.
        return self.several_mig and "ordinal" not in (entry.form, first.form)

    def _text(self, entry: DeviceEntry) -> _Pick:
        stripped = entry.text.strip()
        if stripped[:4] in ("GPU-", "MIG-"):
            problem = f"{_entry(entry)} has a blank before {stripped[:4]}"
            return _ends(entry, "unknown-uuid", problem, certain=False)
        if stripped[:4].upper() in ("GPU-", "MIG-"):
            problem = f"{_entry(entry)} begins with {stripped[:4]}; CUDA's prefix is {stripped[:4].upper()}"
            return _ends(entry, "wrong-case", problem, certain=False)
        if looks_like_uuid(entry.text, self.slots):
            return self._missing_prefix(entry)
        return _ends(entry, "not-a-number", f"{_entry(entry)} is neither a number nor a UUID")

    def _missing_prefix(self, entry: DeviceEntry) -> _Pick:
        return _ends(entry, "missing-prefix", f'{_entry(entry)} is a UUID without its prefix "GPU-"')

    # -- one entry -----------------------------------------------------------------------------------------------

    def _ordinal(self, entry: DeviceEntry) -> _Pick:
        count = len(self.slots)
        if entry.number < 0:
            return _ends(entry, "negative", f"{_entry(entry)} is negative", certain=entry.certain)
        if entry.number >= count:
            if looks_like_uuid(entry.text, self.slots):
                return self._missing_prefix(entry)
            numbers = f"{count} GPUs here, 0 to {count - 1}" if count > 1 else "1 GPU here, number 0"
            have = f"CUDA counts {numbers}" if count else "CUDA has no GPU here"
            both = entry.other_number is not None and (entry.other_number < 0 or entry.other_number >= count)
            return _ends(
                entry, "out-of-range", f"{_entry(entry)} is out of range: {have}", certain=entry.certain or both
            )
        slot = self.slots[entry.number]
        note = None
        if entry.ignored and looks_like_uuid(entry.text, self.slots):
            problem = f'{_entry(entry)} is a UUID without its prefix "GPU-"; CUDA reads the number {entry.number}'
            note = _note(entry, "missing-prefix", problem)
        elif entry.other_number is not None:
            problem = f"{_entry(entry)} is {entry.number} or, read as C reads numbers, {entry.other_number}"
            note = _note(entry, "number-format", problem, certain=False)
        elif entry.ignored:
            problem = f"{_entry(entry)} is read as {entry.number}; {shown(entry.ignored)} behind the digits is ignored"
            note = _note(entry, "ignored-text", problem)
        pick = self._whole_or_first_mig(entry, slot)
        if note is None:
            return pick._replace(certain=pick.certain and entry.certain)
        return pick._replace(note=note, certain=pick.certain and entry.certain)

    def _gpu_uuid(self, entry: DeviceEntry) -> _Pick:
        fitting = [slot for slot in self.slots if slot.uuid and slot.uuid.startswith(entry.text)]
        if len(fitting) == 1:
            if entry.text == "GPU-":  # "enough digits" are asked for: driver 580.159 does not take none
                return _ends(entry, "unknown-uuid", f"{_entry(entry)} has no digit of a UUID", certain=False)
            return self._whole_or_first_mig(entry, fitting[0])
        if fitting:
            problem = f"{_entry(entry)} is the beginning of {len(fitting)} UUIDs"
            pick = _ends(entry, "ambiguous-uuid", problem)
            assert pick.note is not None
            return pick._replace(note=pick.note._replace(candidates=tuple(slot.uuid for slot in fitting)))
        hidden = [gpu for gpu in self.gpus if gpu.uuid.value_or("").startswith(entry.text)]
        if hidden:
            return _ends(entry, "unreachable", f"{_entry(entry)} is GPU {hidden[0].index}, {_why_hidden(hidden[0])}")
        if any(slot.uuid.lower().startswith(entry.text.strip().lower()) for slot in self.slots if slot.uuid):
            change = "blanks" if entry.text != entry.text.strip() else "capitals"
            return _ends(entry, "unknown-uuid", f"{_entry(entry)} fits a UUID but for its {change}", certain=False)
        return _ends(entry, "unknown-uuid", f"{_entry(entry)} is no GPU of this machine")

    def _whole_or_first_mig(self, entry: DeviceEntry, slot: Slot) -> _Pick:
        if not slot.mig_mode or not slot.instances:
            return _Pick(slot)
        name = f"GPU {slot.nvml}" if slot.nvml is not None else slot.uuid
        problem = f"{_entry(entry)} is {name}, which is in MIG mode: the program gets one of its MIG devices"
        return _Pick(slot, slot.instances[0], _note(entry, "mig-parent", problem, certain=False), certain=False)

    def _mig_uuid(self, entry: DeviceEntry) -> _Pick:
        named = [(slot, instance) for slot in self.slots for instance in slot.instances]
        for slot, instance in named:
            if instance.uuid and instance.uuid == entry.text:
                return self._one_per_gpu_instance(entry, slot, instance)
            if entry.text == tuple_form(slot, instance):
                # Documented before R470; the later Programming Guide still shows it, NVIDIA's MIG guide does not.
                old = self.driver is not None and self.driver < FIRST_MIG_UUID_DRIVER
                return _Pick(slot, instance, certain=old)
        fitting = [pair for pair in named if pair[1].uuid and pair[1].uuid.startswith(entry.text)]
        if len(fitting) == 1:
            return _Pick(*fitting[0], certain=False)  # shortened UUIDs are documented for GPUs alone
        if fitting:
            pick = _ends(entry, "ambiguous-uuid", f"{_entry(entry)} is the beginning of {len(fitting)} UUIDs")
            assert pick.note is not None
            return pick._replace(note=pick.note._replace(candidates=tuple(pair[1].uuid for pair in fitting)))
        return _ends(entry, "unknown-uuid", f"{_entry(entry)} is no MIG device of this machine")

    def _one_per_gpu_instance(self, entry: DeviceEntry, slot: Slot, instance: Instance) -> _Pick:
        shared = [
            other.compute_instance
            for other in slot.instances
            if instance.gpu_instance is not None and other.gpu_instance == instance.gpu_instance
        ]
        return _Pick(slot, instance, certain=len(shared) < 2 or not self.several_mig)

    # -- the whole -----------------------------------------------------------------------------------------------

    def _everything(self) -> tuple[list[tuple[Slot, Instance | None]], bool]:
        """What the program gets without the variable."""
        if self.known is not None:
            by_uuid = {slot.uuid: (slot, None) for slot in self.slots} | {
                instance.uuid: (slot, instance) for slot in self.slots for instance in slot.instances
            }
            named = [
                by_uuid.get(device.uuid) or (Slot(None, device.uuid, device.pci_bus_id, device.name), None)
                for device in self.known.devices
            ]
            return [(slot, instance) for slot, instance in named], True
        pairs: list[tuple[Slot, Instance | None]] = []
        for slot in self.slots:
            if not slot.mig_mode or not slot.instances:
                pairs.append((slot, None))
                continue
            taken: set[object] = set()
            for instance in slot.instances:
                key = instance.gpu_instance if instance.gpu_instance is not None else instance
                if key not in taken:
                    taken.add(key)
                    pairs.append((slot, instance))
        has_mig = any(instance is not None for _, instance in pairs)
        if has_mig and not self.several_mig:
            pairs = [next(pair for pair in pairs if pair[1] is not None)]
        return pairs, not self.enumeration.doubt and not has_mig

    def _within_mig_limits(self, picks: list[_Pick]) -> tuple[list[tuple[Slot, Instance | None]], list[Note]]:
        """The devices that remain under the driver's limits on MIG (MIG User Guide, "CUDA Device Enumeration")."""
        pairs = [(pick.slot, pick.instance) for pick in picks if pick.slot is not None]
        kept = pairs
        if self.several_mig:
            seen: set[tuple[str, int]] = set()
            kept = []
            for slot, instance in pairs:
                if instance is not None and instance.gpu_instance is not None:
                    if (slot.uuid, instance.gpu_instance) in seen:
                        continue
                    seen.add((slot.uuid, instance.gpu_instance))
                kept.append((slot, instance))
            rule = "a program gets one compute instance of each GPU instance"
        elif any(instance is not None for _, instance in pairs):
            kept = [next(pair for pair in pairs if pair[1] is not None)]
            rule = f"with driver {self.driver} a program gets one MIG device and no GPU beside it"
        if len(kept) == len(pairs):
            return kept, []
        lost = tuple(
            (instance.uuid if instance is not None else slot.uuid)
            for slot, instance in pairs
            if (slot, instance) not in kept
        )
        note = Note("mig-limit", None, None, rule, lost=lost, certain=not self.several_mig)
        return kept, [note]

    def _order_notes(self) -> list[Note]:
        notes = []
        invalid = self.enumeration.invalid_order
        if invalid is not None:
            problem = f"{ORDER_VARIABLE} is {shown(invalid)}; CUDA knows FASTEST_FIRST and PCI_BUS_ID"
            notes.append(Note("order-invalid", None, None, problem, certain=False))
        if self.enumeration.doubt and len(self.slots) > 1 and invalid is None:
            notes.append(
                Note("order-guess", None, None, f"the numbering is a guess: {self.enumeration.doubt}", certain=False)
            )
        return notes


_FORMS = {
    "ordinal": "number",
    "gpu-uuid": "GPU UUID",
    "mig-uuid": "MIG UUID",
    "blank": "blank",
    "text": "word",
}


def _entry(entry: DeviceEntry) -> str:
    return f"entry {entry.position + 1} ({shown(entry.text)})"


def _note(entry: DeviceEntry, kind: SelectionKind, problem: str, *, certain: bool = True) -> Note:
    return Note(kind, entry.text, entry.position, problem, certain=certain)


def _ends(entry: DeviceEntry, kind: SelectionKind, problem: str, *, certain: bool = True) -> _Pick:
    return _Pick(None, note=_note(entry, kind, problem, certain=certain))


def _hiding(value: str) -> Note:
    if value.strip():
        return Note("hides-all", value, 0, f"{VARIABLE} is {shown(value)}, which names no GPU", lost=(value,))
    said = "set but empty" if not value else "set to blanks"
    return Note("empty", value, 0, f"{VARIABLE} is {said}", certain=not value)


def _repeats(behind: list[DeviceEntry], before: list[DeviceEntry]) -> bool:
    texts = [entry.text.strip() for entry in behind]
    return len(set(texts)) < len(texts) or bool(set(texts) & {entry.text.strip() for entry in before})


def _why_hidden(gpu: Gpu) -> str:
    if gpu.mig_mode.value_or(False):
        return "which is in MIG mode without a MIG device"
    return "which CUDA does not enumerate"


def _device(cuda: int, slot: Slot, instance: Instance | None) -> VisibleDevice:
    if instance is None:
        mig = slot.uuid if slot.uuid.startswith("MIG-") else None
        return VisibleDevice(cuda, slot.nvml, slot.uuid, slot.pci, slot.name, mig)
    return VisibleDevice(cuda, slot.nvml, slot.uuid, slot.pci, instance.name, instance.uuid)
