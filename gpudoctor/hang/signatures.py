"""What makes two entries of flight recorders the same: what an entry says of its operation, sizes and types."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Literal, NamedTuple

from gpudoctor.snapshot.evidence import Collective

Difference = Literal["operation", "shape", "dtype"]
_SAME_INPUT = {
    "all_reduce",
    "all_reduce_coalesced",
    "reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
}
"""Every rank gives as many elements. Of the others (all_to_all, gather, scatter, reduce_scatter of a list, variable
sizes) ranks may give and take different numbers."""
_SAME_TYPE = _SAME_INPUT | {"reduce_scatter", "all_to_all", "all_to_all_single"}
_SAME_CALL = {
    "all_gather_into_tensor": "all_gather",
    "all_gather_single": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "all_reduce_coalesced": "all_reduce",
}
"""Different functions of torch, the same to the library below."""
_SHORT = {"Float": "float32", "Long": "int64", "Int": "int32", "Byte": "uint8", "Half": "float16", "Bool": "bool"}


def short_type(name: str) -> str:
    return _SHORT.get(name, name.lower() if name[:1].isupper() else name)


class Signature(NamedTuple):
    operation: str
    elements: tuple[int, ...] | None
    """Of each tensor; None where ranks may differ."""
    dtypes: tuple[str, ...] | None


class Signatures:
    """Signatures of entries; most entries of a job share a few."""

    def __init__(self) -> None:
        self._of: dict[object, Signature] = {}

    def of(self, entries: Sequence[Collective]) -> tuple[Signature, ...]:
        return tuple([self._one(entry) for entry in entries])

    def _one(self, entry: Collective) -> Signature:
        key = (entry.operation, entry.input_sizes, entry.output_sizes, entry.dtypes)
        if key not in self._of:
            self._of[key] = self._made(entry)
        return self._of[key]

    def _made(self, entry: Collective) -> Signature:
        operation = entry.operation
        sizes = entry.input_sizes or entry.output_sizes
        types = tuple(sorted({short_type(name) for name in entry.dtypes}))
        of_objects = operation == "all_gather" and types == ("uint8",)  # the pickles of all_gather_object
        comparable = operation in _SAME_INPUT and bool(sizes) and not of_objects
        return Signature(
            _SAME_CALL.get(operation, operation),
            tuple(prod(size) for size in sizes) if comparable else None,
            types if types and operation in _SAME_TYPE else None,
        )


def difference(signatures: Iterable[tuple[Signature, ...]]) -> Difference | None:
    """In what the entries of one number differ."""
    every = list(signatures)
    if len({tuple(part.operation for part in signatures) for signatures in every}) > 1:
        return "operation"
    parts = list(zip(*every, strict=True))
    if any(len({part.elements for part in several} - {None}) > 1 for several in parts):
        return "shape"
    if any(len({part.dtypes for part in several} - {None}) > 1 for several in parts):
        return "dtype"
    return None


EXCHANGES = ("all_to_all", "all_to_all_single")
TO_A_ROOT = ("gather", "scatter")
"""ProcessGroupNCCL makes messages of these and of exchanges (torch/csrc/cuda/nccl.cpp): where ranks have other
parts or another root in mind, some are through and some are not, and none of their GPUs stands."""


def given(entry: Collective) -> int:
    return sum(prod(size) for size in entry.input_sizes)


def taken(entry: Collective) -> int:
    return sum(prod(size) for size in entry.output_sizes)


def exchanged(entries: Sequence[Collective]) -> tuple[int | None, ...]:
    """What tells the parties of an exchange apart, whose sizes need not be alike: how much those give who take as much,
    None of the others."""
    exchanges = (entry for entry in entries if entry.operation in EXCHANGES)
    return tuple(given(entry) if given(entry) == taken(entry) else None for entry in exchanges)
