"""What a remedy is written against: an exception or an error line whose words tell what is to be done about it.

A symptom (`gpudoctor.symptom`) is looked for in every line of a log and speaks for a cause that many lines have. A
remedy is asked only about what ended a program, and says what one call wants; its text is a variant of the cause
`program-error`.
"""

import re
from collections.abc import Mapping
from functools import cached_property

from gpudoctor.cause import USUAL_BLAME, Blame, Fix, Judged, Restart
from gpudoctor.command import Command
from gpudoctor.fault_classes import Class


class Remedy:
    """`words`: patterns of the message, of which one must fit; their named groups are values for `fix`. `types`: names
    of the exceptions that may say it; none: any. `lines`: it may also be a line that no exception wrote, of a shell or
    a compiler. `kind`, `blame`, `restart`: as in `gpudoctor.cause` (no blame: whom its kind blames there); no kind: the
    message is judged as without it.
    `sample` and `counter` are its test: "Type: message", or a line.
    """

    def __init__(
        self,
        id: str,
        *,
        words: str | tuple[str, ...],
        fix: str,
        commands: tuple[Command, ...] = (),
        kind: Class | None = None,
        blame: Blame | None = None,
        restart: Restart = "after a fix",
        types: tuple[str, ...] = (),
        lines: bool = False,
        source: str,
        sample: str | tuple[str, ...],
        counter: str | tuple[str, ...],
    ) -> None:
        self.id = id
        self.fix = Fix(fix, commands)
        self.judged = Judged(kind, blame or USUAL_BLAME.get(kind, "program"), restart) if kind else None
        self.types, self.lines, self.source = frozenset(types), lines, source
        self.samples = (sample,) if isinstance(sample, str) else sample
        self.counters = (counter,) if isinstance(counter, str) else counter
        self._words = (words,) if isinstance(words, str) else words

    @cached_property
    def words(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(re.compile, self._words))

    def match(self, type_name: str, message: str) -> Mapping[str, str] | None:
        """The values that the message tells; None where it is another one."""
        if self.types and type_name.rpartition(".")[2] not in self.types:
            return None
        matched = next((matched for words in self.words if (matched := words.search(message))), None)
        return None if matched is None else {name: value for name, value in matched.groupdict().items() if value}


__all__ = ["Remedy"]
