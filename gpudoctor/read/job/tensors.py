"""The type and sizes of a torch tensor of another process, read from its memory without stopping it.

A tensor's Python object begins with the object's header of two words, behind which is a pointer to its TensorImpl
(torch/csrc/autograd/python_variable.h; in older releases a word of MaybeOwned lies between: both are tried). In that,
c10 keeps (c10/core/TensorImpl.h, c10/core/impl/SizesAndStrides.h; tried with torch 2.13 and 2.14):

| words | |
|---|---|
| 1 | the number of dimensions |
| 5, 5 | sizes, then strides, of up to five dimensions |
| 1, 1 | offset in the storage, number of elements |
| | the type, two bytes |

Where these begin is not assumed: it is where the sizes' product is the number of elements.
"""

import os
import struct
from types import TracebackType

WORDS = 32
FIRST, LAST = 4, 12
"""Words of TensorImpl before the number of dimensions: 7 in torch 2.13 and 2.14."""
INLINE = 5
HEADER, MOST_ELEMENTS, LONGEST_TYPE = 16, 1 << 48, 64
_TYPES = """uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32
bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz
float8_e4m3fnuz uint16 uint32 uint64"""
TYPES = _TYPES.split()
"""c10/core/ScalarType.h, in its order."""


class Memory:
    """The memory of a process, for reading; "" of what cannot be read."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.file = -1
        self.kept: dict[int, dict[str, str]] = {}
        """What was read of a class, by its address."""

    def __enter__(self) -> "Memory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file >= 0:
            os.close(self.file)

    def tensor(self, address: int) -> str:
        """ "float32[512, 1024]" of the tensor whose Python object is there."""
        for own in self.words(address + HEADER, 2):
            if text := sizes_in(self.words(own, WORDS)):
                return text
        return ""

    def dtype(self, address: int) -> str:
        """ "bfloat16" of the torch.dtype whose Python object is there: a byte of its number, then its name
        (torch/csrc/Dtype.h)."""
        name = self.read(address + HEADER + 1, LONGEST_TYPE).partition(b"\0")[0].decode("ascii", "replace")
        return name if name in TYPES else ""

    def words(self, address: int, number: int) -> tuple[int, ...]:
        raw = self.read(address, 8 * number)
        return struct.unpack(f"<{len(raw) // 8}q", raw[: len(raw) // 8 * 8])

    def read(self, address: int, number: int) -> bytes:
        if not 4096 <= address < 1 << 47:
            return b""
        try:
            if self.file < 0:
                self.file = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self.file, number, address)
        except (OSError, OverflowError):
            return b""


def sizes_in(words: tuple[int, ...]) -> str:
    """The type and sizes of a TensorImpl; "" of other words, and of more than five dimensions."""
    for at in range(FIRST, LAST):
        rest = words[at : at + 4 + 2 * INLINE]
        if len(rest) < 4 + 2 * INLINE or not 0 < rest[0] <= INLINE:
            continue
        sizes, strides = rest[1 : 1 + rest[0]], rest[1 + INLINE : 1 + INLINE + rest[0]]
        offset, elements, kind = rest[1 + 2 * INLINE], rest[2 + 2 * INLINE], rest[3 + 2 * INLINE] & 0xFFFF
        product = 1
        for size in sizes:
            product = product * size if 0 <= size < MOST_ELEMENTS else -1
        fits = product == elements < MOST_ELEMENTS and offset >= 0 and min(strides) >= 0 and kind < len(TYPES)
        if fits:
            return f"{TYPES[kind]}[{', '.join(map(str, sizes))}]"
    return ""
