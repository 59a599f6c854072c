"""What a reader of this machine is: a function under `@reader` that fills declared fields of the snapshot."""

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec

from gpudoctor.read.system import System
from gpudoctor.snapshot import Reading

P = ParamSpec("P")
Facts = Mapping[str, Reading[Any]]
"""Readings by the dotted names of the snapshot's fields."""


class Reader(Generic[P]):
    """A function that reads some facts, and the dotted names of the snapshot's fields that it fills."""

    def __init__(
        self,
        name: str,
        fields: tuple[str, ...],
        read: Callable[Concatenate[System, P], Facts | Reading[Any]],
        *,
        everywhere: bool = False,
    ) -> None:
        self.name = name
        self.fields = fields
        self.read = read
        self.everywhere = everywhere
        """It also reads macOS and Windows; there the others say that they read Linux only."""

    def __call__(self, system: System, *options: P.args, **named: P.kwargs) -> Facts:
        """The fields; what comes after `system` is for tests."""
        facts = self.read(system, *options, **named)
        return {self.fields[0]: facts} if isinstance(facts, Reading) else facts


def reader(
    name: str, *fields: str, everywhere: bool = False
) -> Callable[[Callable[Concatenate[System, P], Facts | Reading[Any]]], Reader[P]]:
    """Make a reader of a function. One that fills a single field may return the bare reading."""
    return lambda read: Reader(name, fields, read, everywhere=everywhere)
