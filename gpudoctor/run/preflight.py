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
        self._together: Callable[[], BeforeTold | None] | None = together
        self._of_nodes: BeforeTold | None = None
        self._until = time.monotonic() + MOST_SECONDS
        if preflight == "none":
            self._together = None
            return
        try:
            task = msgspec.json.encode(BeforeTask(command=command, torch=preflight == "full")).decode()
            self._child = active.start(
                "before", active.own_module("gpudoctor.run.before", task), timeout=BESIDE_SECONDS
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
        """What was found, once; nothing as long as it looks."""
        self._hear()
        own, of_nodes = BeforeTold(), self._of_nodes or BeforeTold()
        self._of_nodes = None
        if self._child is not None and self._child.is_over():
            reply, self._child = self._child.end(), None
            with contextlib.suppress(msgspec.DecodeError):
                own = msgspec.json.decode(reply.output, type=BeforeTold)
        return BeforeTold(errors=own.errors + of_nodes.errors, lines=(*own.lines, *of_nodes.lines))

    def end(self) -> None:
        """Nobody waits for it any more."""
        if self._child is not None:
            self._child.end()
            self._child = None
