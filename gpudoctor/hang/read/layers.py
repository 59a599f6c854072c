"""What an armed process and the communication layer tell, asked in one place: stacks, the source, the recorder, RAS."""

import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from gpudoctor.fleet.messages import LookAt
from gpudoctor.hang.evidence import Ras, Recorder, Sample, SourceContext, Thread, Unread
from gpudoctor.hang.read import recorder, stacks
from gpudoctor.hang.read.files import Reader
from gpudoctor.hang.read.stacks import Stacks
from gpudoctor.read.system import System

MOST_SOURCES = 8
"""User frames of a main thread whose source is read: the user's part of a stack is rarely deeper."""


def module(name: str) -> ModuleType | None:
    import importlib

    try:
        return importlib.import_module(f"gpudoctor.hang.read.{name}")
    except ImportError:
        return None


class Layers:
    """Of one order."""

    def __init__(self, system: System, wanted: Mapping[int, int], ranks: Mapping[int, int], order: LookAt) -> None:
        self.system = system
        self.wanted = wanted
        self.ranks = ranks
        self.order = order
        self._armed: dict[int, Any] = {}

    def stacks(self, pids: Sequence[int], seconds: float) -> dict[int, Stacks]:
        """By py-spy; where that may not, as an armed process writes them itself."""
        deadline = time.monotonic() + seconds
        found = stacks.dump(pids, timeout=max(0.2, seconds), native=self.order.native)
        armed = module("armed")
        if armed is not None:
            for pid, stack in found.items():
                left = deadline - time.monotonic()
                if not stack.by and left > 0.1 and (how := self.armed(pid)) is not None:
                    own = armed.stacks(pid, how, left)
                    if own.by:
                        found[pid] = own
        return found

    def armed(self, pid: int) -> Any:
        if pid not in self._armed:
            armed = module("armed")
            self._armed[pid] = armed.find(pid) if armed is not None else None
        return self._armed[pid]

    def is_armed(self, pid: int) -> bool:
        return self.armed(pid) is not None

    def contexts(self, pid: int, main: Thread) -> tuple[SourceContext, ...]:
        source = module("source")
        if source is None:
            return ()
        from gpudoctor.hang.places import is_user

        read = Reader(self.system, pid)
        frames = [frame for frame in main.frames if not frame.native and is_user(frame)][:MOST_SOURCES]
        found = (source.context(frame, read) for frame in frames)
        return tuple(context for context in found if context is not None)

    def recorder(
        self, pid: int, rank: int, environment: Mapping[str, str], deadline: float
    ) -> tuple[Recorder | None, tuple[Unread, ...]]:
        """The flight recorder of a rank, and why it could not be read where there is one."""
        armed, how = module("armed"), self.armed(pid)
        ask = None
        if armed is not None and how is not None:

            def ask() -> bytes | None:
                raw: bytes | None = armed.recorder_json(pid, how, max(0.2, deadline - time.monotonic()))
                return raw

        timeout = max(0.2, min(recorder.PIPE_ANSWERS_IN, deadline - time.monotonic()))
        return recorder.of_process(pid, rank, environment, ask=ask, pipe=getattr(how, "pipe", ""), timeout=timeout)

    def ras(
        self, versions: Sequence[str], environments: Mapping[int, Mapping[str, str]], samples: Mapping[int, Sample]
    ) -> tuple[tuple[Ras, ...], list[Unread]]:
        return (), []
