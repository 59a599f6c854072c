"""Pickles as torch's own pickler writes a flight recorder: protocol 2, only texts are kept for later."""

import struct


def dumps(value: object) -> bytes:
    """None, bool, int, float, str, list, tuple of two and dict."""
    out = bytearray(b"\x80\x02")
    texts: dict[str, int] = {}
    _write(value, out, texts)
    out += b"."
    return bytes(out)


def _write(value: object, out: bytearray, texts: dict[str, int]) -> None:
    if value is None:
        out += b"N"
    elif value is True or value is False:
        out += b"\x88" if value else b"\x89"
    elif isinstance(value, int):
        if 0 <= value < 256:
            out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            out += b"M" + struct.pack("<H", value)
        elif -(1 << 31) <= value < 1 << 31:
            out += b"J" + struct.pack("<i", value)
        else:
            out += b"\x8a\x08" + struct.pack("<q", value)
    elif isinstance(value, float):
        out += b"G" + struct.pack(">d", value)
    elif isinstance(value, str):
        _text(value, out, texts)
    elif isinstance(value, tuple):
        first, second = value
        _write(first, out, texts)
        _write(second, out, texts)
        out += b"\x86"
    elif isinstance(value, list):
        out += b"]("
        for item in value:
            _write(item, out, texts)
        out += b"e"
    elif isinstance(value, dict):
        out += b"}("
        for key, item in value.items():
            _write(key, out, texts)
            _write(item, out, texts)
        out += b"u"
    else:
        raise TypeError(type(value))


def _text(value: str, out: bytearray, texts: dict[str, int]) -> None:
    if value in texts:
        number = texts[value]
        out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        return
    number = texts[value] = len(texts)
    raw = value.encode()
    out += b"X" + struct.pack("<I", len(raw)) + raw
    out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)
