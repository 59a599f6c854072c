"""One entry of CUDA_VISIBLE_DEVICES, as CUDA reads it.

An ordinal is read the way strtol(3) reads one: blanks, a sign, digits, and whatever follows is ignored
("1gpu2" is 1: torch's test table, validated on driver 525.60.13, pytorch#92315). UUIDs carry their prefix
"GPU-" or "MIG-" (CUDA Programming Guide; MPS guide). What no source settles is marked as not certain, with the
reading that torch's parser shares.
"""

import json
import re
from typing import Literal, NamedTuple

from gpudoctor.knowledge.wording import shortened
from gpudoctor.lazy import lazy_re

Form = Literal["ordinal", "gpu-uuid", "mig-uuid", "blank", "text"]

WHITESPACE = " \t\n\v\f\r"
NUMBER = lazy_re(r"([ \t\n\v\f\r]*)([+-]?)([0-9]+)(.*)", re.DOTALL)
LARGEST_INT = 2**31 - 1
"""Of what is larger CUDA keeps the lower 32 bits ("4294967296" is 0: driver 580.159; no source says so)."""
SHOWN_CHARACTERS = 60


class DeviceEntry(NamedTuple):
    """What stands between two commas."""

    position: int
    """Counted from 0."""
    text: str
    form: Form
    number: int = 0
    ignored: str = ""
    """What follows the number, without blanks at its ends."""
    other_number: int | None = None
    """What the number would be under C's rules for octal and hexadecimal, where that differs."""
    certain: bool = True


def entries(value: str) -> list[DeviceEntry]:
    """The entries of a value, in order."""
    return [_entry(position, text) for position, text in enumerate(value.split(","))]


def _entry(position: int, text: str) -> DeviceEntry:
    if text.startswith("GPU-"):
        return DeviceEntry(position, text, "gpu-uuid")
    if text.startswith("MIG-"):
        return DeviceEntry(position, text, "mig-uuid")
    if not text.strip(WHITESPACE):
        return DeviceEntry(position, text, "blank", certain=not text)
    match = NUMBER.fullmatch(text)
    if match is None:
        return DeviceEntry(position, text, "text")
    blanks, sign, digits, rest = match.groups()
    number = _bounded(digits, 10)
    other = _by_c_rules(digits, rest)
    if sign == "-":
        number, other = -number, None if other is None else -other
    certain = not blanks.strip(" ") and abs(number) <= LARGEST_INT and other in (None, number)
    if 0 <= (low := number % 2**32) <= LARGEST_INT < number < 2**63:
        number, other = low, number
    return DeviceEntry(
        position,
        text,
        "ordinal",
        number=number,
        ignored=rest.strip(WHITESPACE),
        other_number=other if other != number else None,
        certain=certain,
    )


def _by_c_rules(digits: str, rest: str) -> int | None:
    """The number that strtol with base 0 reads, where the digits begin with a zero."""
    hexadecimal = re.match(r"[xX]([0-9a-fA-F]+)", rest)
    if digits == "0" and hexadecimal:
        return _bounded(hexadecimal[1], 16)
    if len(digits) > 1 and digits.startswith("0"):
        octal = re.match(r"[0-7]*", digits)
        return _bounded(octal[0] if octal else "0", 8)
    return None


def _bounded(digits: str, base: int) -> int:
    # int() refuses texts of thousands of digits; 24 are more than any integer of CUDA's holds.
    return int(digits.lstrip("0")[:24] or "0", base)


def shown(text: str) -> str:
    """A value or entry as it may stand in a message: quoted, on one line, of a bearable length, never undecodable.

    What is printable stands as it is, for a quote of another alphabet is what was odd about it."""
    quoted = json.dumps(shortened(text, SHOWN_CHARACTERS), ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in quoted)
