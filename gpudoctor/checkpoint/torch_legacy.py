"""The format of torch.save before 1.6: pickles one after another, then the storages, each behind its length."""

from gpudoctor.checkpoint.allowance import for_listing
from gpudoctor.checkpoint.find import shown
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.pickles import Beat, Machine
from gpudoctor.checkpoint.source import OpenFile, Region
from gpudoctor.checkpoint.unreadable import BadFile, DamagedFile, printable
from gpudoctor.checkpoint.values import Name, Storage

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
"""torch/serialization.py."""
PROTOCOL = 1001
WINDOWS = (1 << 20, 64 << 20, 512 << 20)
"""Bytes of the pickles: where they end is known only when they are read."""


def load(source: OpenFile, beat: Beat) -> Loaded:
    """Raises `BadFile`."""
    for window in WINDOWS:
        for_listing(min(window, source.size))
        machine = Machine(source.read(0, min(window, source.size)), beat=beat)
        try:
            return _load(source, machine)
        except BadFile:
            if not machine.is_cut or source.size <= window:
                raise
    raise BadFile("its pickles have more bytes beside the tensors than is read")


def _load(source: OpenFile, machine: Machine) -> Loaded:
    if machine.next_value() != MAGIC_NUMBER:
        raise BadFile(other_pickle(machine))
    protocol = machine.next_value()
    if protocol != PROTOCOL:
        raise BadFile(f"it has version {printable(shown(protocol))} of the legacy format; torch knows {PROTOCOL}")
    about = machine.next_value()
    value = machine.next_value()
    keys = machine.next_value()
    if not isinstance(keys, list) or not all(isinstance(key, (str, int)) for key in keys):
        raise DamagedFile("its list of storages is damaged")
    places: dict[str, tuple[int, int]] = {}
    order = [str(key) for key in keys]
    start = machine.at

    def region(storage: Storage) -> Region:
        # Lengths are counted in elements, so that each place follows from the types of those before it.
        if not places:
            places.update(_places(source, order, sizes, start))
        if storage.key not in places:
            raise DamagedFile("it has no numbers for one of its tensors")
        offset, size = places[storage.key]
        if size < (storage.view + storage.elements) * storage.item_bytes:
            raise DamagedFile(f"it has {size} bytes for a tensor of {storage.size}")
        return Region(offset, size)

    sizes = _item_bytes(value)
    return Loaded(
        "torch legacy",
        value,
        region,
        names=machine.names,
        called=machine.called,
        big_endian=isinstance(about, dict) and about.get("little_endian") is False,
    )


def _places(source: OpenFile, order: list[str], item_bytes: dict[str, int], at: int) -> dict[str, tuple[int, int]]:
    by_key: dict[str, tuple[int, int]] = {}
    for key in order:
        if key not in item_bytes:
            raise BadFile("it holds a storage that no tensor looks into, so that the next one cannot be found")
        count = int.from_bytes(source.read(at, 8), "little")
        size = count * item_bytes[key]
        if at + 8 + size > source.size:
            raise DamagedFile(
                f"it is cut off: it has {source.size} bytes, and its tensors reach to byte {at + 8 + size}; copy or "
                "save it again"
            )
        by_key[key] = (at + 8, size)
        at += 8 + size
    return by_key


def _item_bytes(value: object) -> dict[str, int]:
    from gpudoctor.checkpoint.walk import storages

    return {storage.key: storage.item_bytes for storage in storages(value)}


def other_pickle(machine: Machine) -> str:
    """What a pickle is that torch.save did not write."""
    names = [name.full for name in machine.names]
    if any(name.startswith(("sklearn.", "joblib.")) for name in names):
        return "it is a pickle of scikit-learn: joblib.load reads it, and runs whatever it holds"
    if any(name.startswith(("numpy.", "numpy")) for name in names):
        return (
            "it is a pickle of numpy arrays, and no checkpoint of torch.save: pickle.load would run whatever it holds"
        )
    first_name = f" ({printable(names[0])})" if names else ""
    return f"it is a pickle{first_name}, and no checkpoint of torch.save: pickle.load would run whatever it holds"


__all__ = ["Name", "load"]
