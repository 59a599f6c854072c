"""Writes safetensors, a piece at a time."""

from collections.abc import Iterator
from typing import IO

import msgspec

from gpudoctor.checkpoint.copied import CopyPlan, PlacedTensor
from gpudoctor.checkpoint.safetensors import MOST_HEADER_BYTES, NAMES
from gpudoctor.checkpoint.unreadable import BadFile, printable
from gpudoctor.checkpoint.values import ITEM_BYTES, Storage, Tensor, product


def check(plan: CopyPlan, big_endian: bool) -> None:
    """Raises `BadFile` for what the format cannot hold."""
    if big_endian:
        raise BadFile("--fix: safetensors holds little-endian numbers only; give OUT the ending .pt")
    for tensor in plan.tensors:
        if tensor.dtype not in NAMES:
            raise BadFile(f"--fix: safetensors has no type for {printable(tensor.name)} ({tensor.dtype})")
        if tensor.name == "__metadata__":
            raise BadFile("--fix: safetensors cannot hold a tensor named __metadata__")
        stored = Tensor(tensor.dtype, tensor.shape, tensor.stride, 0, Storage("", tensor.dtype, 0))
        if not stored.is_contiguous:
            raise BadFile(
                f"--fix: {printable(tensor.name)} is stored transposed, which safetensors cannot hold; give OUT the "
                "ending .pt"
            )


def order(plan: CopyPlan) -> list[PlacedTensor]:
    """Largest elements first, so that every tensor stays aligned (as the safetensors package sorts)."""
    return sorted(plan.tensors, key=lambda tensor: (-ITEM_BYTES[tensor.dtype], tensor.name))


def size_of(tensor: PlacedTensor) -> int:
    return product(tensor.shape) * ITEM_BYTES[tensor.dtype]


def header(plan: CopyPlan) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in order(plan):
        end = at + size_of(tensor)
        entries[tensor.name] = {"dtype": NAMES[tensor.dtype], "shape": tensor.shape, "data_offsets": (at, end)}
        at = end
    raw = msgspec.json.encode(entries)
    raw += b" " * (-len(raw) % 8)
    if len(raw) > MOST_HEADER_BYTES:
        raise BadFile("--fix: safetensors cannot hold so many names; give OUT the ending .pt")
    return len(raw).to_bytes(8, "little") + raw


def write(file: IO[bytes], plan: CopyPlan, pieces: Iterator[Iterator[bytes]]) -> None:
    """`pieces` gives the bytes of each tensor, in `order`."""
    file.write(header(plan))
    for chunks in pieces:
        for piece in chunks:
            file.write(piece)
