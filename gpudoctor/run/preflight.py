"""Looks before the start, for a few seconds: a child asks `lint` and `check`, and where the job has several nodes
another one whether these can train together; what takes longer goes on beside the job."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from gpudoctor import active

MOST_SECONDS = 5.0
"""That the start waits."""
BESIDE_SECONDS = 90.0
MOST_SHOWN = 4
Preflight = Literal["full", "short", "none"]


class BeforeTask(Struct, frozen=True, kw_only=True):
    """What to look at."""

    command: tuple[str, ...]
    torch: bool = False
    """Import torch in the training interpreter too."""


class BeforeTold(Struct, frozen=True, kw_only=True):
    """What was found: lines for the terminal, errors first."""

    errors: int = 0
    lines: tuple[str, ...] = ()


def in_few_lines(errors: Sequence[str]) -> BeforeTold:
    """The first errors, and how many more there are."""
    more = (f"and {len(errors) - MOST_SHOWN} more errors",) if len(errors) > MOST_SHOWN else ()
    return BeforeTold(errors=len(errors), lines=(*errors[:MOST_SHOWN], *more))


class Looking:
    """One look, which may outlast the wait for it."""

    def __init__(
        self, command: tuple[str, ...], preflight: Preflight, together: Callable[[], BeforeTold | None]
    ) -> None:
        """`together`: what the look at all nodes has found."""
        self._child: active.Child | None = None
        self._said: list[bytes] = []
        """Lines of the child that nobody was told of yet."""
        self._together: Callable[[], BeforeTold | None] | None = together
        self._of_nodes: BeforeTold | None = None
        self._until = time.monotonic() + MOST_SECONDS
        if preflight == "none":
            self._together = None
            return
        try:
            task = msgspec.json.encode(BeforeTask(command=command, torch=preflight == "full")).decode()
            self._child = active.start(
                "before",
                active.own_module("gpudoctor.run.before", task),
                timeout=BESIDE_SECONDS,
                on_line=self._said.append,
            )
        except (OSError, ValueError):  # no more processes; words that are too many, or that no JSON holds
            return

    def wait(self, until: Callable[[float], bool]) -> bool:
        """As long as the start may wait. `until` waits some seconds; true: somebody wants us gone."""
        while time.monotonic() < self._until:
            self._hear()
            if self._together is None and (self._child is None or self._child.is_over()):
                break
            if until(0.01):
                return True
        return False

    def _hear(self) -> None:
        if self._together is not None and (of_nodes := self._together()) is not None:
            self._of_nodes, self._together = of_nodes, None

    def told(self) -> BeforeTold:
        """What was found since it was last asked: what is slow to find keeps nothing else back."""
        self._hear()
        found, self._of_nodes = [self._of_nodes or BeforeTold()], None
        if self._child is not None and self._child.is_over():
            self.end()
        while self._said:
            with contextlib.suppress(msgspec.DecodeError):
                found.insert(-1, msgspec.json.decode(self._said.pop(0), type=BeforeTold))
        return BeforeTold(
            errors=sum(told.errors for told in found), lines=tuple(line for told in found for line in told.lines)
        )

    def end(self) -> None:
        """Nobody waits for it any more."""
        if self._child is not None:
            self._child.end()
            self._child = None
