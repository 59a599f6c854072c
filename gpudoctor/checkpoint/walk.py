"""Walks over the values of a checkpoint, however they are nested and whether or not they hold themselves."""

from collections.abc import Iterator
from typing import Any

from gpudoctor.checkpoint.values import Name, Object, Storage, Tensor


def inside(value: Any) -> Iterator[tuple[str, Any]]:
    """The values directly in one, with what leads to them."""
    kind = type(value)
    if kind is dict:
        for key, each in value.items():
            yield str(key), each
    elif kind in (list, tuple):
        for number, each in enumerate(value):
            yield str(number), each
    elif kind is Object:
        yield from (("args", value.args), ("state", value.state), ("items", value.items), ("values", value.values))
    elif kind is Tensor:
        for number, part in enumerate(value.parts):
            yield str(number), part


def everything(value: Any) -> Iterator[Any]:
    """Every value once, in no particular order."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if type(each) not in (dict, list, tuple, Object, Tensor) or isinstance(each, Name):
            continue
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting.extend(item for _, item in inside(each) if type(item) in (dict, list, tuple, Object, Tensor))


def storages(value: Any) -> Iterator[Storage]:
    """Of every tensor."""
    for tensor in everything(value):
        if type(tensor) is Tensor and tensor.storage is not None:
            yield tensor.storage


def tensors(value: Any) -> Iterator[Tensor]:
    for tensor in everything(value):
        if type(tensor) is Tensor:
            yield tensor
