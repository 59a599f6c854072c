"""What an entry of the symptom tables is: one kind of line in a log, and the cause that it speaks for."""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from string import Formatter
from typing import Literal, get_args

from gpudoctor.lazy import lazy_re
from gpudoctor.needles import needles
from gpudoctor.sure import HINT, LIKELY, POSSIBLE, PROVED, SEEN

Role = Literal["cause", "connection", "consequence", "context"]
"""cause: explains the failure by itself. connection: a connection failed, by the network or because the other end died.
consequence: something failed before, here or elsewhere (a watchdog's time-out, "connection closed by peer", SIGTERM).
context: no fault, and worth knowing for the conclusion (a rank has started, NCCL uses lo, an operation's number)."""
ROLES: tuple[Role, ...] = get_args(Role)
"""The most decisive first."""
USUAL: Mapping[Role, float] = {"cause": SEEN, "connection": LIKELY, "consequence": POSSIBLE, "context": HINT}
"""How sure an entry is of its cause that says nothing else."""

NUMBERED = "__"
"""Between the name of a group and the number of the pattern that it is of."""
GROUP = lazy_re(r"\(\?P<(\w+)>")
UNSAID = "?"
"""For a value that the line does not tell."""


class Symptom:
    """An entry: what a line looks like, and which of the causes it speaks for.

    `pattern`: tried on the line (without colours and line end), with named groups for the values that `seen` and the
    cause's fix name: rank, other, host, address, port, operation, sequence, size, file, ... Of several patterns one
    must fit; they may name the same groups. `needle`: literal text that every such line holds; it is looked for before
    the pattern is tried. Of several texts one must be there. It is needed where there is no pattern, and where the
    pattern's own literals (gpudoctor.needles) are too short or too common, or stand too far from its beginning.
    A line that holds `unless` is another matter. `over`: what is told when it has come right, with the names of values
    in angle brackets: `<interface>: Link up`.
    `sample` and `counter` are lines that it must find and must not find: its test.
    """

    def __init__(
        self,
        id: str,
        *,
        needle: str | tuple[str, ...] = (),
        pattern: str | tuple[str, ...] = "",
        unless: str = "",
        over: str = "",
        cause: str = "",
        variant: str = "",
        role: Role = "cause",
        confidence: float | None = None,
        seen: str | tuple[str, ...],
        versions: str = "",
        source: str,
        sample: str | tuple[str, ...],
        counter: str | tuple[str, ...],
    ) -> None:
        self.id = id
        self.cause, self.variant = cause, variant
        """`cause`: a name of `causes.CAUSES`; "" where it speaks for none by itself. `variant`: which of its fixes."""
        self.role: Role = role
        self.confidence = USUAL[role] if confidence is None else confidence
        self.seen = (seen,) if isinstance(seen, str) else seen
        """What the line says, in words. Of several, the first whose values the line tells."""
        self.versions, self.source = versions, source
        """`versions`: "nccl >= 2.24", "torch 2.1-2.4"; empty: all that were read."""
        self.samples = (sample,) if isinstance(sample, str) else sample
        self.counters = (counter,) if isinstance(counter, str) else counter
        self._texts = (pattern,) if isinstance(pattern, str) else pattern
        self._needles = (needle,) if isinstance(needle, str) else needle
        self.unless, self.over = unless, over

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Of which every such line holds one; () of a table's entry that has none is a fault, which its test finds."""
        chosen = [needles(text) for text in self._texts]
        return self._needles or tuple(dict.fromkeys(text for texts in chosen for text in texts if all(chosen)))

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
        matched = self.pattern.search(line)
        if matched is None:
            return None
        return {name.partition(NUMBERED)[0]: value for name, value in matched.groupdict().items() if value}

    def said(self, values: Mapping[str, str]) -> str:
        """What a line with these values says."""
        text = next((text for text in self.seen if wanted(text) <= values.keys()), self.seen[-1])
        return text.format_map(defaultdict(lambda: UNSAID, values))


def wanted(text: str) -> set[str]:
    """The values that a text names in braces."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


__all__ = ["HINT", "LIKELY", "POSSIBLE", "PROVED", "SEEN", "Symptom"]
