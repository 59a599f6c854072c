"""What expands words, as those see it whom it needs itself."""

from collections.abc import Mapping
from typing import Literal, Protocol

from gpudoctor.lint.shell.source import CommandRun, ShellSource
from gpudoctor.lint.shell.variables import Variables

Mode = Literal["word", "quotes", "here"]


class Expands(Protocol):
    """`expand.Expander`."""

    source: ShellSource
    variables: Variables
    nested: int
    """How many `$(...)` are around it."""

    @property
    def seat(self) -> Mapping[str, str]:
        """What is this node's own."""

    def runs(self, start: int, end: int, mode: Mode = "word", depth: int = 0) -> list[CommandRun]:
        """The pieces of `source.text[start:end]`, in order."""

    def inner(self, source: ShellSource, variables: Variables) -> "Expands":
        """The same for what stands in a `$(...)` of it."""
