"""Reads every number of a checkpoint once, in pieces: NaN, infinity, and records that fail their checksum."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpudoctor.checkpoint import nonfinite
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.nonfinite import NotFinite
from gpudoctor.checkpoint.source import OpenFile
from gpudoctor.checkpoint.values import Storage, Tensor

Read = Callable[[int], None]
"""Told after each piece, with the bytes of it."""

MOST_OVERLAP = 4
"""How often, on the average, one byte is counted for tensors that overlap; nothing but an attack overlaps more."""


class ByteSpan(NamedTuple):
    """Bytes of a storage that are counted together."""

    begin: int
    end: int
    dtype: str


class Scanned(NamedTuple):
    counts: dict[int, NotFinite]
    """id of a tensor -> its NaN and infinite elements; not there: not counted."""
    damaged: frozenset[str]
    """Keys of the storages whose checksum does not fit."""


def scan(source: OpenFile, loaded: Loaded, tensors: Iterable[Tensor], read: Read) -> Scanned:
    """Raises `BadFile` where numbers cannot be read at all."""
    by_key: dict[str, list[tuple[Storage, Tensor]]] = {}
    seen: set[int] = set()
    for tensor in tensors:
        for part in (tensor, *tensor.parts):
            if part.storage is not None and id(part) not in seen:  # one tensor may have thousands of names
                seen.add(id(part))
                by_key.setdefault(part.storage.key, []).append((part.storage, part))
    counts: dict[int, NotFinite] = {}
    damaged: set[str] = set()
    for key, users in by_key.items():
        storage = max((storage for storage, _ in users), key=lambda user: user.view * user.item_bytes + user.size)
        spans = _spans(users)
        found, is_damaged = _scan_storage(source, loaded, storage, spans, read)
        if is_damaged:
            damaged.add(key)
        for _, tensor in users:
            span = _span(tensor)
            if span is not None and span in found and (tensor.is_dense or found[span] == NotFinite()):
                counts[id(tensor)] = found[span]
    return Scanned(counts, frozenset(damaged))


def _span(tensor: Tensor) -> ByteSpan | None:
    storage = tensor.storage
    if storage is None or not tensor.elements or not nonfinite.counts(tensor.dtype):
        return None
    begin = storage.view * storage.item_bytes + tensor.offset * tensor.item_bytes
    return ByteSpan(begin, begin + tensor.span * tensor.item_bytes, tensor.dtype)


def _spans(users: list[tuple[Storage, Tensor]]) -> list[ByteSpan]:
    """Sorted; those that would count the same bytes again and again are left out."""
    every = sorted({span for _, tensor in users if (span := _span(tensor)) is not None})
    room = MOST_OVERLAP * max((span.end for span in every), default=0)
    kept = []
    for span in every:
        room -= span.end - span.begin
        if room >= 0:
            kept.append(span)
    return kept


def _scan_storage(
    source: OpenFile, loaded: Loaded, storage: Storage, spans: list[ByteSpan], read: Read
) -> tuple[Mapping[ByteSpan, NotFinite], bool]:
    region = loaded.region(storage)
    by_span = dict.fromkeys(spans, NotFinite())
    active: list[ByteSpan] = []
    waiting = list(reversed(spans))
    at, crc = 0, 0
    for piece in source.chunks(region):
        end = at + len(piece)
        while waiting and waiting[-1].begin < end:
            active.append(waiting.pop())
        for span in active:
            whole = span.begin <= at and span.end >= end
            part = piece if whole else piece[max(span.begin - at, 0) : span.end - at]
            by_span[span] += nonfinite.count(part, span.dtype, big_endian=loaded.big_endian)
        active = [span for span in active if span.end > end]
        if region.crc is not None and loaded.checks_crc:
            crc = zlib.crc32(piece, crc)
        at = end
        read(len(piece))
    is_damaged = region.crc is not None and loaded.checks_crc and crc != region.crc
    return by_span, is_damaged
