"""What a clean copy holds: the tensors by their plain names, and which bytes of which storage they need. Pure rules."""

from typing import NamedTuple

from gpudoctor.checkpoint.find import StateDict
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.source import Region
from gpudoctor.checkpoint.unreadable import BadFile, printable
from gpudoctor.checkpoint.values import STORAGE_DTYPES, Tensor
from gpudoctor.checkpoint.wrappers import Cleaned

ALIGNED = 16
"""Bytes: the largest element, so that an offset in elements stays whole."""
STORAGE_OF = {dtype: name for name, dtype in STORAGE_DTYPES.items() if name != "UntypedStorage"}


class Copied(NamedTuple):
    """A storage of the copy, and where its bytes come from."""

    key: str
    region: Region
    begin: int
    """First byte of the original storage that is copied."""
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


class PlacedTensor(NamedTuple):
    """A tensor of the copy."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    storage: int
    """Number of its storage in the copy."""
    offset: int
    """Elements."""
    typed: bool
    """Whether its storage can be named by its type, as every torch reads it."""
    storage_elements: int


class CopyPlan(NamedTuple):
    storages: tuple[Copied, ...]
    tensors: tuple[PlacedTensor, ...]

    @property
    def size(self) -> int:
        return sum(storage.size for storage in self.storages)


def planned(loaded: Loaded, chosen: StateDict, names: Cleaned) -> CopyPlan:
    """Raises `BadFile` for tensors that no plain file can hold."""
    kept = {new: chosen.tensors[old] for old, new in names.names.items()}
    for name, tensor in kept.items():
        _check(name, tensor)
    reach: dict[str, tuple[int, int]] = {}
    dtypes: dict[str, set[str]] = {}
    for tensor in kept.values():
        storage = tensor.storage
        assert storage is not None
        begin, end = _bytes(tensor)
        first, last = reach.get(storage.key, (begin, end))
        reach[storage.key] = (min(first, begin), max(last, end))
        dtypes.setdefault(storage.key, set()).add(tensor.dtype)
    numbers = {key: number for number, key in enumerate(reach)}
    storages: list[Copied] = []
    for tensor in kept.values():
        storage = tensor.storage
        assert storage is not None
        if numbers[storage.key] == len(storages):
            begin, end = reach[storage.key]
            storages.append(Copied(storage.key, loaded.region(storage), begin // ALIGNED * ALIGNED, end))
    tensors = []
    for name, tensor in kept.items():
        assert tensor.storage is not None
        number = numbers[tensor.storage.key]
        typed = len(dtypes[tensor.storage.key]) == 1 and tensor.dtype in STORAGE_OF
        offset = (_bytes(tensor)[0] - storages[number].begin) // tensor.item_bytes
        whole = storages[number].size // tensor.item_bytes if typed else storages[number].size
        tensors.append(PlacedTensor(name, tensor.dtype, tensor.shape, tensor.stride, number, offset, typed, whole))
    return CopyPlan(tuple(storages), tuple(tensors))


def _bytes(tensor: Tensor) -> tuple[int, int]:
    assert tensor.storage is not None
    begin = tensor.storage.view * tensor.storage.item_bytes + tensor.offset * tensor.item_bytes
    return begin, begin + tensor.span * tensor.item_bytes


def _check(name: str, tensor: Tensor) -> None:
    words = {
        "sparse": "is sparse",
        "quantized": "is quantized",
        "shard": "is one rank's part of a distributed tensor",
        "meta": "has no numbers",
        "subclass": f"is of the class {printable(tensor.subclass)}",
        "nested": "is nested",
    }
    if tensor.kind in words:
        raise BadFile(f"--fix copies plain tensors only, and {printable(name)} {words[tensor.kind]}")
    if tensor.storage is None:
        raise BadFile(f"--fix copies plain tensors only, and {printable(name)} has no numbers")
