"""Looks before the start, for a few seconds: a child asks `lint` and `check`; what takes longer goes on beside it."""

import time
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from gpudoctor import active

MOST_SECONDS = 5.0
"""That the start waits."""
BESIDE_SECONDS = 90.0
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


class Looking:
    """One look, which may outlast the wait for it."""

    def __init__(self, command: tuple[str, ...], preflight: Preflight) -> None:
        self._child: active.Child | None = None
        self._until = time.monotonic() + MOST_SECONDS
        if preflight == "none":
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
        while self._child is not None and not self._child.is_over() and time.monotonic() < self._until:
            if until(0.01):
                return True
        return False

    def told(self) -> BeforeTold:
        """What was found, once; nothing as long as it looks."""
        if self._child is None or not self._child.is_over():
            return BeforeTold()
        reply, self._child = self._child.end(), None
        try:
            return msgspec.json.decode(reply.output, type=BeforeTold)
        except msgspec.DecodeError:
            return BeforeTold()

    def end(self) -> None:
        """Nobody waits for it any more."""
        if self._child is not None:
            self._child.end()
            self._child = None
