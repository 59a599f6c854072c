"""Writes the zip format of torch.save, a piece at a time: stored entries, aligned, zip64, the pickle by hand.

The layout is that of torch/serialization.py and caffe2/serialize/inline_container.cc; every torch since 1.6 reads it.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import IO

from gpudoctor.checkpoint.copied import STORAGE_OF, CopyPlan

ALIGNMENT = 64
ROOT = "archive"
FULL = 0xFFFFFFFF
"""In the place of a 32-bit number: the 64-bit one stands elsewhere."""
LARGE = 0xFFFFFFFF
"""Bytes from which on numbers have 64 bits."""
MAXIMUM_COUNT = 0xFFFF
DATE = (0, 33)
"""1 January 1980: the same state dict gives the same file."""


class TorchWriter:
    """A zip file whose entries are known by size before they are written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.at = 0
        self.directory: list[bytes] = []

    def entry(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        raw = f"{ROOT}/{name}".encode()
        large = max(size, self.at) >= LARGE
        own = struct.pack("<HHQQ", 1, 16, size, size) if large else b""
        gap = -(self.at + 30 + len(raw) + len(own) + 4) % ALIGNMENT
        extra = own + struct.pack("<HH", 0x4246, gap) + b"Z" * gap  # "FB", as torch pads
        header_at = self.at
        self._write(self._local(raw, extra, size, 0, large))
        crc, written = 0, 0
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
            written += len(piece)
            self._write(piece)
        assert written == size, name
        end = self.at
        self.file.seek(header_at)
        self.file.write(self._local(raw, extra, size, crc, large))
        self.file.seek(end)
        self.directory.append(self._central(raw, size, crc, header_at, large))

    def close(self) -> None:
        start = self.at
        for record in self.directory:
            self._write(record)
        size, count = self.at - start, len(self.directory)
        if start >= LARGE or count >= MAXIMUM_COUNT:
            end = self.at
            self._write(struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start))
            self._write(struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1))
        short = min(count, MAXIMUM_COUNT)
        self._write(
            struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, short, short, size, FULL if start >= LARGE else start, 0)
        )

    def _write(self, piece: bytes) -> None:
        self.file.write(piece)
        self.at += len(piece)

    def _local(self, name: bytes, extra: bytes, size: int, crc: int, large: bool) -> bytes:
        shown = FULL if large else size
        fields = (b"PK\x03\x04", 45 if large else 20, 0, 0, *DATE, crc, shown, shown, len(name), len(extra))
        return struct.pack("<4sHHHHHIIIHH", *fields) + name + extra

    def _central(self, name: bytes, size: int, crc: int, header: int, large: bool) -> bytes:
        extra = struct.pack("<HHQQQ", 1, 24, size, size, header) if large else b""
        shown = FULL if large else size
        place = FULL if large else header
        version = 45 if large else 20
        fields = (
            b"PK\x01\x02",
            version,
            version,
            0,
            0,
            *DATE,
            crc,
            shown,
            shown,
            len(name),
            len(extra),
            0,
            0,
            0,
            0,
            place,
        )
        return struct.pack("<4sHHHHHHIIIHHHHHII", *fields) + name + extra


def write(file: IO[bytes], plan: CopyPlan, pieces: Iterator[tuple[int, Iterator[bytes]]], big_endian: bool) -> None:
    """`pieces` gives each storage's number and bytes, in order."""
    zipped = TorchWriter(file)
    content = pickled(plan)
    zipped.entry("data.pkl", len(content), [content])
    order = b"big" if big_endian else b"little"
    zipped.entry("byteorder", len(order), [order])
    for number, storage in pieces:
        zipped.entry(f"data/{number}", plan.storages[number].size, storage)
    zipped.entry("version", 2, [b"3\n"])
    zipped.close()


def pickled(plan: CopyPlan) -> bytes:
    """The state dict as an OrderedDict, in pickle protocol 2 and without a memo."""
    out = bytearray(b"\x80\x02ccollections\nOrderedDict\n)R(")
    for tensor in plan.tensors:
        out += _text(tensor.name)
        kind = f"ctorch\n{STORAGE_OF[tensor.dtype]}\n" if tensor.typed else "ctorch.storage\nUntypedStorage\n"
        out += b"ctorch._utils\n_rebuild_tensor_v2\n(" if tensor.typed else b"ctorch._utils\n_rebuild_tensor_v3\n("
        out += b"(" + _text("storage") + kind.encode() + _text(str(tensor.storage)) + _text("cpu")
        out += _number(tensor.storage_elements) + b"tQ"
        out += _number(tensor.offset) + _numbers(tensor.shape) + _numbers(tensor.stride)
        out += b"\x89ccollections\nOrderedDict\n)R"
        if not tensor.typed:
            out += f"ctorch\n{tensor.dtype}\n".encode()
        out += b"tR"
    return bytes(out + b"u.")


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def _number(number: int) -> bytes:
    if number < 256:
        return b"K" + bytes([number])
    if number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    raw = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(_number(number) for number in numbers) + b"t"
