"""What an entry of the symptom tables is, and an event: where a log shows one."""

import re
from functools import cached_property
from typing import Literal

from msgspec import Struct, field

Role = Literal["cause", "connection", "consequence", "context"]
"""cause: explains the failure by itself. connection: a connection failed, by the network or because the other end died.
consequence: something failed before, here or elsewhere (a watchdog's time-out, "connection closed by peer", SIGTERM).
context: no fault, and worth knowing for the conclusion (a rank has started, NCCL uses lo, an operation's number)."""


class Symptom:
    """An entry: what a line looks like, and which cause of the taxonomy it speaks for.

    `needle`: literal text that every such line holds; it is looked for before the pattern is tried. Of several texts
    one must be there. `pattern`: tried on the line (without colours and line end), with named groups for the values
    that `seen` and `fix` name: rank, other, host, address, port, operation, sequence, size, file, ...
    `sample` and `counter` are lines that it must find and must not find: its test.
    """

    def __init__(
        self,
        id: str,
        *,
        needle: str | tuple[str, ...],
        pattern: str = "",
        cause: str,
        role: Role = "cause",
        confidence: float = 0.8,
        seen: str,
        fix: str = "",
        commands: tuple[str, ...] = (),
        versions: str = "",
        source: str,
        sample: str | tuple[str, ...],
        counter: str | tuple[str, ...],
    ) -> None:
        self.id = id
        self.needles = (needle,) if isinstance(needle, str) else needle
        self.cause, self.role, self.confidence = cause, role, confidence
        """`cause`: a name of `knowledge.hangs.CAUSES`; "" where it speaks for none by itself (context)."""
        self.seen, self.fix, self.commands = seen, fix, commands
        """`fix`: empty: the taxonomy's."""
        self.versions, self.source = versions, source
        """`versions`: "nccl >= 2.24", "torch 2.1-2.4"; empty: all that were read."""
        self.samples = (sample,) if isinstance(sample, str) else sample
        self.counters = (counter,) if isinstance(counter, str) else counter
        self._pattern = pattern

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self._pattern or "|".join(re.escape(needle) for needle in self.needles))


class Event(Struct, frozen=True, kw_only=True):
    """A line that shows a symptom."""

    symptom: str
    """Its id."""
    file: str
    line: int
    """From 1."""
    text: str
    """The line, at most 500 characters, without colours and control characters."""
    values: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    """Whose line it is, from the line's own words or its prefix ("[rank3]:", "[default3]:", "3: ")."""
    host: str = ""
    time: float | None = None
    """Seconds since the epoch (local times taken as UTC), where the line or one before it of the same writer tells."""
