"""What an entry of the symptom tables is, and an event: where a log shows one."""

import re
from functools import cached_property
from typing import Literal

from msgspec import Struct, field

from gpudoctor.command import Command

Role = Literal["cause", "connection", "consequence", "context"]
"""cause: explains the failure by itself. connection: a connection failed, by the network or because the other end died.
consequence: something failed before, here or elsewhere (a watchdog's time-out, "connection closed by peer", SIGTERM).
context: no fault, and worth knowing for the conclusion (a rank has started, NCCL uses lo, an operation's number)."""

NUMBERED = "__"
"""Between the name of a group and the number of the pattern that it is of."""
GROUP = re.compile(r"\(\?P<(\w+)>")


class Symptom:
    """An entry: what a line looks like, and which cause of the taxonomy it speaks for.

    `needle`: literal text that every such line holds; it is looked for before the pattern is tried. Of several texts
    one must be there. `pattern`: tried on the line (without colours and line end), with named groups for the values
    that `seen` and `fix` name: rank, other, host, address, port, operation, sequence, size, file, ...
    Of several patterns one must fit; they may name the same groups. A line that holds `unless` is another matter.
    `sample` and `counter` are lines that it must find and must not find: its test.
    """

    def __init__(
        self,
        id: str,
        *,
        needle: str | tuple[str, ...],
        pattern: str | tuple[str, ...] = "",
        unless: str = "",
        cause: str,
        role: Role = "cause",
        confidence: float = 0.8,
        seen: str,
        fix: str = "",
        commands: tuple[Command, ...] = (),
        versions: str = "",
        source: str,
        sample: str | tuple[str, ...],
        counter: str | tuple[str, ...],
    ) -> None:
        self.id = id
        self.needles = (needle,) if isinstance(needle, str) else needle
        self.cause, self.role, self.confidence = cause, role, confidence
        """`cause`: a name of `causes.CAUSES`; "" where it speaks for none by itself (context)."""
        self.seen, self.fix, self.commands = seen, fix, commands
        """`fix`: empty: the taxonomy's."""
        self.versions, self.source = versions, source
        """`versions`: "nccl >= 2.24", "torch 2.1-2.4"; empty: all that were read."""
        self.samples = (sample,) if isinstance(sample, str) else sample
        self.counters = (counter,) if isinstance(counter, str) else counter
        self._texts = (pattern,) if isinstance(pattern, str) else pattern
        self.unless = unless

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """All patterns as one. Groups of the second and later ones have a number behind their names: see `match`."""
        if any(self._texts):
            first, *others = self._texts
            numbered = [GROUP.sub(rf"(?P<\1{NUMBERED}{number}>", text) for number, text in enumerate(others, 2)]
            text = "|".join(f"(?:{text})" for text in (first, *numbered)) if others else first
        else:
            text = "|".join(re.escape(needle) for needle in self.needles)
        if self.unless:
            text = rf"\A(?![^\n]*{re.escape(self.unless)})[^\n]*?(?:{text})"
        return re.compile(text)

    @property
    def names(self) -> frozenset[str]:
        """Of the values that a match may give."""
        return frozenset(name.partition(NUMBERED)[0] for name in self.pattern.groupindex)

    def match(self, line: str) -> dict[str, str] | None:
        """The values of a line that this entry is about; None when it is not."""
        found = self.pattern.search(line)
        if found is None:
            return None
        return {name.partition(NUMBERED)[0]: value for name, value in found.groupdict().items() if value}


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
