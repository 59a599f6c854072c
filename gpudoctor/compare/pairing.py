"""Which thing of one capture is which of the other: whether the machines are one, GPUs, and items of every list.

A GPU is known by its UUID on one machine, and by its place on the PCI bus on two. In a redacted capture UUIDs, names
and addresses are pseudonyms that hold for that document alone: they say nothing about another one.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from gpudoctor.knowledge.pci_address import in_sysfs
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Gpu, Interface, Snapshot

Kinship = Literal["same", "other", "unknown"]
PSEUDONYM = lazy_re(r"(?:mac|ip)-\d+")
NEW = 10_000
"""Beyond any index: the number of a GPU that is in the later capture only."""
MOST_ZEROS = 24
"""Of the 32 digits of a UUID: a pseudonym differs from the others in its first few digits only (redact)."""

KEYS: dict[str, tuple[str, ...]] = {
    "Gpu": (),
    "NvLink": ("link",),
    "MigDevice": ("index",),
    "GpuProcess": ("pid",),
    "PeerAccess": ("from_gpu", "to_gpu"),
    "TopologyLevel": ("gpu", "other"),
    "CudaDevice": ("pci_bus_id",),
    "TorchDevice": ("ordinal",),
    "PciDevice": ("bus_id",),
    "DeviceNode": ("path",),
    "RdmaDevice": ("name",),
    "RdmaPort": ("number",),
    "Gid": ("index",),
    "Interface": ("name",),
    "Address": ("family", "address", "prefix_length"),
    "Route": ("destination", "interface"),
    "ConfigFile": ("path",),
    "RankSettings": ("pid",),
    "Firewall": ("tool",),
    "PciPath": ("bus_id",),
    "UsedPath": ("role",),
    "StuckProcess": ("pid",),
    "XidEvent": ("code", "pci_bus_id"),
    "LinkLimit": ("pci_bus_id",),
    "AcsBridge": ("bus_id",),
    "Library": ("name",),
    "SmokeTarget": ("device",),
    "AmpTarget": ("device",),
    "AmpResult": ("dtype",),
    "TrainResult": ("way", "precision", "backend"),
}
"""By which fields an item of a list is the same one; a tool's order is not it."""


class Pairing(Struct, frozen=True):
    """Two captures, and which of their GPUs are one."""

    kinship: Kinship
    before: dict[int, int]
    """NVML index -> number of the pair: the index in the earlier capture."""
    after: dict[int, int]

    def key(self, item: Struct, *, is_later: bool) -> str:
        """What an item of a list is known by; "" where nothing tells."""
        numbers = self.after if is_later else self.before
        if isinstance(item, Gpu):
            return str(numbers[item.index])
        parts = []
        for name in KEYS.get(type(item).__name__, ()):
            value = getattr(item, name)
            if name in ("from_gpu", "to_gpu", "gpu", "other"):
                value = numbers.get(value, f"index {value}")
            elif name in ("pci_bus_id", "bus_id"):
                value = place(value)
            parts.append(str(value))
        return " ".join(parts)


def paired(before: Snapshot, after: Snapshot) -> Pairing:
    """Which machine and which GPU is which."""
    kinship = _kinship(before, after)
    old, new = (list(snapshot.nvidia.gpus.value_or(())) for snapshot in (before, after))
    share_slots = bool({_slot(gpu) for gpu in old if _slot(gpu)} & {_slot(gpu) for gpu in new})
    matches: dict[int, int] = {}
    """Index in the later capture -> index in the earlier one."""

    def match(name: Callable[[Gpu], str], *, only: Callable[[Gpu, Gpu], bool] = lambda gpu, other: True) -> None:
        left = {name(gpu): gpu for gpu in old if name(gpu) and gpu.index not in matches.values()}
        for gpu in new:
            other = left.get(name(gpu)) if gpu.index not in matches else None
            if other is not None and only(gpu, other):
                matches[gpu.index] = left.pop(name(gpu)).index

    if kinship == "same":
        match(lambda gpu: gpu.uuid.value_or(""))
    match(_slot)
    # By number only what has no other name, and on two machines that have no slot in common.
    match(
        lambda gpu: str(gpu.index),
        only=lambda gpu, other: not (_slot(gpu) and _slot(other)) or not share_slots,
    )
    unmatched = (gpu.index for gpu in new if gpu.index not in matches)
    matches |= {index: NEW + index for index in unmatched}
    return Pairing(kinship, {gpu.index: gpu.index for gpu in old}, matches)


def _slot(gpu: Gpu) -> str:
    return place(gpu.pci_bus_id.value_or(""))


def place(address: str) -> str:
    """A PCI address in one form, whoever wrote it."""
    try:
        return in_sysfs(address)
    except ValueError:
        return address


def _kinship(before: Snapshot, after: Snapshot) -> Kinship:
    if is_redacted(before) or is_redacted(after):
        return "unknown"
    old, new = (
        {gpu.uuid.value for gpu in snapshot.nvidia.gpus.value_or(()) if gpu.uuid.is_read and gpu.uuid.value}
        for snapshot in (before, after)
    )
    if old & new:
        return "same"
    names = [snapshot.host.hostname.value_or("") for snapshot in (before, after)]
    if all(names):
        return "same" if names[0] == names[1] else "other"
    return "other" if old and new else "unknown"


def is_redacted(machine: Snapshot) -> bool:
    """Whether what tells one machine from another are pseudonyms in it."""
    for gpu in machine.nvidia.gpus.value_or(()):
        digits = gpu.uuid.value_or("").removeprefix("GPU-").replace("-", "")
        if len(digits) == 32 and digits.count("0") >= MOST_ZEROS:
            return True
    interfaces = machine.network.interfaces.value_or(())
    return any(
        PSEUDONYM.fullmatch(text) for interface in interfaces for text in (interface.mac, *_addresses(interface))
    )


def _addresses(interface: Interface) -> Iterator[str]:
    return (address.address for address in interface.addresses)


def shown_key(item: Struct) -> str:
    """What an item is called in a sentence."""
    return " ".join(str(getattr(item, name)) for name in KEYS.get(type(item).__name__, ()))
