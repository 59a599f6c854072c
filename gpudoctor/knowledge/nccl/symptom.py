"""What an entry of the symptom tables is, and what is found of it in a log."""

import re
from functools import cached_property
from typing import Literal

from msgspec import Struct, field

from gpudoctor.command import Command

Weight = Literal["cause", "connection", "consequence", "note"]
"""cause: explains a failure by itself. connection: a connection failed, by the network or because the other end died.
consequence: another process or queue failed first. note: worth knowing, and no fault on every machine."""

WEIGHTS: tuple[Weight, ...] = ("cause", "connection", "consequence", "note")
"""The most decisive first."""


class Symptom(Struct, frozen=True, kw_only=True):
    """An entry of the table, as it was found in a log."""

    id: str
    weight: Weight
    seen: str
    """What the log says, in one line with its values."""
    cause: str
    """Why that happens, as sentences."""
    fix: str
    """What to do, as sentences."""
    commands: tuple[Command, ...] = ()
    """Lines to paste."""
    values: dict[str, str] = field(default_factory=dict)
    """What was taken from the line: "address", "device", "rank", "other", "errno", "status", "size", ..."""
    line: str = ""
    """The record as it stands in the log, without what is before "NCCL"."""
    count: int = 1
    """How many records say it."""
    versions: str = ""
    """The NCCL that words it so; empty: all that were read."""
    source: str = ""

    @property
    def is_consequence(self) -> bool:
        return self.weight == "consequence"


class Rule:
    """An entry of the table: what to look for, and what it means.

    `needles` are the literal texts that are looked for first; `patterns` are tried on the line around one, with named
    groups for the values that `seen` names. A value that no group gave is "?".
    """

    def __init__(
        self,
        id: str,
        *patterns: str,
        needles: tuple[str, ...],
        seen: str,
        cause: str,
        fix: str,
        commands: tuple[Command, ...] = (),
        weight: Weight = "cause",
        versions: str = "",
        source: str = "",
        unless: str = "",
    ) -> None:
        self.id, self.needles, self.seen, self.cause, self.fix = id, needles, seen, cause, fix
        self.commands, self.weight, self.versions, self.source = commands, weight, versions, source
        self._texts, self.unless = patterns or tuple(re.escape(needle) for needle in needles), unless

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(text) for text in self._texts)

    def match(self, line: str) -> dict[str, str] | None:
        """The values of a line that this entry is about; None when it is not."""
        if self.unless and self.unless in line:
            return None
        for pattern in self.patterns:
            if found := pattern.search(line):
                return {name: value for name, value in found.groupdict().items() if value}
        return None
