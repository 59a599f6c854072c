"""What `gpudoctor explain --json` says."""

from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor.check import Fix


class Line(Struct, frozen=True):
    """A decisive line of a log."""

    file: str
    line: int
    text: str


class LogCause(Struct, frozen=True, kw_only=True):
    cause: str
    """A name of `causes.CAUSES`."""
    confidence: float
    ranks: tuple[int, ...] = ()
    """The culprits."""
    evidence: tuple[Line, ...] = ()
    summary: str
    meaning: str = ""
    fix: Fix
    confirm: str = ""


class Explanation(Struct, frozen=True, kw_only=True):
    causes: tuple[LogCause, ...] = ()
    """Best first; alternatives have a lower confidence."""
    unknown: str | None = None
    """What is wrong and not understood ("torchrun ended with status 1, and no line before it says why"); None where
    nothing of the kind is there."""
    consequences: tuple[Line, ...] = ()
    """Lines that look like a cause, and follow from it."""
    story: tuple[Line, ...] = ()
    """What happened, in order: at most 12 lines."""
    files: tuple[str, ...] = ()
    lines: int = 0
    bytes: int = 0
    ranks: tuple[int, ...] = ()
    """Ranks that the logs speak of."""
    unreadable: dict[str, str] = {}
    """File -> why it could not be read, or is no log."""


def to_json(explanation: Explanation) -> bytes:
    return msgspec.json.format(msgspec.json.encode(explanation), indent=2)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `gpudoctor explain --json`."""
    return msgspec.json.schema(Explanation)
