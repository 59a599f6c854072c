"""What users' programs say around the lines at which their processes stand, read and parsed in a child process."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpudoctor.knowledge.places import is_user
from gpudoctor.read.apart import Apart, NotAnswered
from gpudoctor.read.job.source_child import SourceAnswer, SourceRequest
from gpudoctor.snapshot.evidence import Frame, SourceContext, Thread, Unread

MOST_SOURCES = 8
"""User frames of a main thread whose source is read: the user's part of a stack is rarely deeper."""
MOST_LINES = 2048
"""Lines of one order that are looked at; a thousand ranks stand at some dozens."""
SECONDS_OF_A_LINE = 2.0
"""A file of 256 KiB takes a third of one [measured: lines that say `a`]."""
PROC = Path("/proc")
View = tuple[str, ...]
"""Where names lead: mount namespace, root and working folder of a process."""


class Sources:
    """Of one order. Each line is looked at once, whoever stands there; a file that met a bound is left alone."""

    def __init__(self) -> None:
        self.unread: list[Unread] = []
        self._reader = Apart("gpudoctor.read.job.source_child", "source files")
        self._known: dict[tuple[View, Frame], SourceContext | None] = {}
        self._refused: set[tuple[View, str]] = set()
        self._lock = threading.Lock()

    def of(self, mains: Mapping[int, Thread], deadline: float) -> dict[int, tuple[SourceContext, ...]]:
        """Of the user frames of main threads; what is not read by `deadline` (time.monotonic) is left out."""
        found: dict[int, tuple[SourceContext, ...]] = {}
        with self._lock:
            for pid, main in mains.items():
                frames = [frame for frame in main.frames if not frame.native and is_user(frame)][:MOST_SOURCES]
                contexts = (self._context(pid, frame, deadline) for frame in frames)
                found[pid] = tuple(context for context in contexts if context is not None)
        return found

    def end(self) -> None:
        self._reader.end()

    def _context(self, pid: int, frame: Frame, deadline: float) -> SourceContext | None:
        if frame.line <= 0 or not frame.file or frame.file.startswith("<"):
            return None
        view = _view(pid)
        key = view, frame
        if key in self._known or (view, frame.file) in self._refused or len(self._known) >= MOST_LINES:
            return self._known.get(key)
        left = min(SECONDS_OF_A_LINE, deadline - time.monotonic())
        if left <= 0.0:
            return None
        try:
            answer = self._reader.ask(msgspec.json.encode(SourceRequest(pid, frame)), left)
            self._known[key] = msgspec.json.decode(answer, type=SourceAnswer).context
        except (NotAnswered, msgspec.DecodeError) as error:
            self._refused.add((view, frame.file))
            self.unread.append(Unread(f"source file {frame.file} of pid {pid}", str(error), pid))
        return self._known.get(key)


def _view(pid: int) -> View:
    found = []
    for name in ("ns/mnt", "ns/user", "root", "cwd"):
        try:
            found.append(str((PROC / str(pid) / name).readlink()))
        except OSError:
            found.append(str(pid))
    return tuple(found)
