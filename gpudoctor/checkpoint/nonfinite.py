"""How many elements of a run of bytes are NaN or infinite, without numpy: strided slices, and integers as bit vectors.

An element is NaN or infinite when all bits of its exponent are set. Its highest byte nearly always shows that it is
not, so that most pieces are cleared by one look at every n-th byte.
"""

from typing import NamedTuple


class NotFinite(NamedTuple):
    nan: int = 0
    infinite: int = 0

    def __add__(self, other: object) -> "NotFinite":
        assert isinstance(other, NotFinite)
        return NotFinite(self.nan + other.nan, self.infinite + other.infinite)


class _Layout(NamedTuple):
    """Of one element, the most significant byte first."""

    exponent: tuple[int, ...]
    """Bits of the exponent in each byte."""
    mantissa: tuple[int, ...]


_FLOATS = {
    "float64": _Layout((0x7F, 0xF0, 0, 0, 0, 0, 0, 0), (0, 0x0F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)),
    "float32": _Layout((0x7F, 0x80, 0, 0), (0, 0x7F, 0xFF, 0xFF)),
    "float16": _Layout((0x7C, 0), (0x03, 0xFF)),
    "bfloat16": _Layout((0x7F, 0x80), (0, 0x7F)),
    "float8_e5m2": _Layout((0x7C,), (0x03,)),
}
_ALIASES = {"complex128": "float64", "complex64": "float32", "complex32": "float16"}
"""Each part of a complex number is counted."""
_NAN_BYTES = {
    "float8_e4m3fn": b"\x7f\xff",
    "float8_e4m3fnuz": b"\x80",
    "float8_e5m2fnuz": b"\x80",
    "float8_e8m0fnu": b"\xff",
}
"""Types without infinity (ONNX' description of float8; OCP MX for e8m0)."""


def counts(dtype: str) -> bool:
    """Whether elements of this type can be NaN."""
    return dtype in _FLOATS or dtype in _ALIASES or dtype in _NAN_BYTES


def count(piece: bytes, dtype: str, *, big_endian: bool = False) -> NotFinite:
    """Of whole elements; a rest at the end is passed over."""
    if dtype in _NAN_BYTES:
        return NotFinite(sum(piece.count(byte) for byte in _NAN_BYTES[dtype]))
    layout = _FLOATS[_ALIASES.get(dtype, dtype)]
    size = len(layout.exponent)
    if len(piece) % size:
        piece = piece[: len(piece) // size * size]
    places = range(size) if big_endian else range(size - 1, -1, -1)
    columns = [piece[place::size] if size > 1 else piece for place in places]
    if not _may_be(columns[0], layout.exponent[0]):
        return NotFinite()
    suspects = -1
    for column, bits in zip(columns, layout.exponent, strict=True):
        if bits:
            suspects &= int.from_bytes(column.translate(_TABLES[bits]), "little")
    if not suspects:
        return NotFinite()
    infinite = suspects
    for column, bits in zip(columns, layout.mantissa, strict=True):
        if bits:
            infinite &= int.from_bytes(column.translate(_NONE[bits]), "little")
    return NotFinite(suspects.bit_count() - infinite.bit_count(), infinite.bit_count())


def _may_be(highest: bytes, bits: int) -> bool:
    """Whether any element has all these bits of its highest byte."""
    if bits == 0x7F:
        return b"\x7f" in highest or b"\xff" in highest
    return len(highest.translate(None, _SET[bits])) != len(highest)


_SET = {bits: bytes(byte for byte in range(256) if byte & bits == bits) for bits in (0x7F, 0x7C, 0xF0, 0x80)}
_TABLES = {bits: bytes(int(byte & bits == bits) for byte in range(256)) for bits in (0x7F, 0x7C, 0xF0, 0x80)}
_NONE = {bits: bytes(int(byte & bits == 0) for byte in range(256)) for bits in (0x0F, 0x7F, 0xFF, 0x03)}
