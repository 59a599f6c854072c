"""The directory of a zip file, as torch.save writes it: stored entries, 64-byte aligned, zip64 where needed.

Read by hand, because a checkpoint is somebody else's file: everything is bounded, entries that overlap, expand beyond
reason or share a name are refused, and what is wanted is where the bytes of an entry lie.
"""

import struct
from typing import NamedTuple

from gpudoctor.checkpoint.allowance import for_listing
from gpudoctor.checkpoint.source import OpenFile, Region
from gpudoctor.checkpoint.unreadable import BadFile, DamagedFile, printable

END = b"PK\x05\x06"
END_64 = b"PK\x06\x06"
LOCATOR_64 = b"PK\x06\x07"
ENTRY = b"PK\x01\x02"
LOCAL = b"PK\x03\x04"
MOST_DIRECTORY_BYTES = 256 * 1024 * 1024
"""A million entries take some 100 MB."""
MOST_ENTRIES = 2_000_000
LONGEST_COMMENT = 65_535
MOST_EXPANSION = 200
"""Times; deflate reaches 1,032. Weights hardly shrink at all, so that only long runs of zeros come near."""
EXPANSION_MATTERS_BYTES = 64 * 1024 * 1024
NO_SIZE = 0xFFFFFFFF


class ArchiveEntry(NamedTuple):
    name: str
    size: int
    packed: int
    crc: int
    method: int
    header: int
    """Where its local header begins."""


def entries(source: OpenFile) -> dict[str, ArchiveEntry]:
    """All entries by name. Raises `BadFile`."""
    try:
        return _entries(source)
    except struct.error:
        raise DamagedFile("its directory of contents, at its end, is damaged") from None


def _entries(source: OpenFile) -> dict[str, ArchiveEntry]:
    count, size, offset = _directory(source)
    if size > MOST_DIRECTORY_BYTES or count > MOST_ENTRIES:
        raise BadFile(f"its directory of contents has {count} entries, more than a checkpoint has")
    if offset + size > source.size:
        raise DamagedFile("it is cut off, or damaged: its directory of contents lies past its end")
    for_listing(size)
    raw = source.read(offset, size)
    by_name: dict[str, ArchiveEntry] = {}
    at = 0
    for _ in range(count):
        if raw[at : at + 4] != ENTRY:
            raise DamagedFile("its directory of contents, at its end, is damaged")
        entry, at = _entry(raw, at)
        if entry.name in by_name:
            raise BadFile(f"it has two entries named {printable(entry.name)}, which torch never writes: do not load it")
        if ".." in entry.name.split("/") or entry.name.startswith(("/", "\\")) or "\\" in entry.name:
            raise BadFile(f"it has an entry named {printable(entry.name)}, which leads out of it: do not unpack it")
        by_name[entry.name] = entry
    places = {entry.header for entry in by_name.values()}
    if len(places) < len(by_name) or sum(entry.packed for entry in by_name.values()) > source.size:
        raise BadFile("its entries overlap or lie past its end: it is cut off, or made to expand without end")
    for entry in by_name.values():
        if entry.size > EXPANSION_MATTERS_BYTES and entry.size > MOST_EXPANSION * max(entry.packed, 1):
            raise BadFile(
                f"its entry {printable(entry.name)} of {entry.packed} bytes expands to {entry.size}: a zip bomb"
            )
    return by_name


def _directory(source: OpenFile) -> tuple[int, int, int]:
    """(entries, bytes, offset) of the directory."""
    tail_at = max(0, source.size - LONGEST_COMMENT - 22)
    tail = source.read(tail_at, source.size - tail_at)
    at = tail.rfind(END)
    if at < 0 or at + 22 > len(tail):
        raise DamagedFile(
            f"it is cut off: {source.size} bytes are there, and the directory of contents at the end of a zip file is "
            "not; copy or save it again"
        )
    count, size, offset = struct.unpack_from("<HII", tail, at + 10)
    if at >= 20 and tail[at - 20 : at - 16] == LOCATOR_64:
        place = struct.unpack_from("<Q", tail, at - 12)[0]
        if place + 56 > source.size:
            raise DamagedFile("it is cut off, or damaged: its directory of contents lies past its end")
        record = source.read(place, 56)
        if record[:4] != END_64:
            raise DamagedFile("its directory of contents, at its end, is damaged")
        count, size, offset = struct.unpack_from("<QQQ", record, 32)
    return count, size, offset


def _entry(raw: bytes, at: int) -> tuple[ArchiveEntry, int]:
    flags, method = struct.unpack_from("<HH", raw, at + 8)
    crc, packed, size = struct.unpack_from("<III", raw, at + 16)
    name_length, extra_length, comment_length = struct.unpack_from("<HHH", raw, at + 28)
    header = struct.unpack_from("<I", raw, at + 42)[0]
    name_at = at + 46
    extra_at = name_at + name_length
    end = extra_at + extra_length + comment_length
    if end > len(raw):
        raise DamagedFile("its directory of contents, at its end, is damaged")
    name = raw[name_at:extra_at].decode("utf-8", "replace")
    if flags & 1:
        raise BadFile("it is encrypted, as torch.save never writes; unpack it with its password first")
    if method not in (0, 8):
        raise BadFile(f"its entry {printable(name)} is packed by method {method}, which torch does not read")
    size, packed, header = _extended(raw[extra_at : extra_at + extra_length], size, packed, header)
    if method == 0 and size != packed:
        raise DamagedFile("its directory of contents, at its end, is damaged: an entry has two sizes")
    return ArchiveEntry(name, size, packed, crc, method, header), end


def _extended(extra: bytes, size: int, packed: int, header: int) -> tuple[int, int, int]:
    """The 64-bit numbers of an entry, where the 32-bit ones are full."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            field = extra[at + 4 : at + 4 + length]
            numbers = list(struct.unpack_from(f"<{len(field) // 8}Q", field))
            values = []
            for value in (size, packed, header):
                values.append(numbers.pop(0) if value == NO_SIZE and numbers else value)
            return values[0], values[1], values[2]
        at += 4 + length
    return size, packed, header


def region(source: OpenFile, entry: ArchiveEntry) -> Region:
    """Where the bytes of an entry lie. Raises `BadFile`."""
    if entry.header + 30 > source.size:
        raise DamagedFile(f"its entry {printable(entry.name)} lies past its end")
    header = source.read(entry.header, 30)
    if header[:4] != LOCAL:
        raise DamagedFile(f"its entry {printable(entry.name)} is not where its directory of contents says")
    name_length, extra_length = struct.unpack_from("<HH", header, 26)
    offset = entry.header + 30 + name_length + extra_length
    if offset + entry.packed > source.size:
        raise DamagedFile(f"its entry {printable(entry.name)} lies past its end")
    return Region(offset, entry.size, entry.crc, entry.packed if entry.method else None)
