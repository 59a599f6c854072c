"""What users' programs say around the lines at which their processes stand, read and parsed in a child process."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import structs

from gpudoctor.knowledge.on_the_way import told_on
from gpudoctor.knowledge.place_markers import C10D, drives_training
from gpudoctor.knowledge.places import is_library, is_marked, is_user
from gpudoctor.knowledge.recorders import PartedBy, parted_by
from gpudoctor.read.apart import Apart, NotAnswered
from gpudoctor.read.job.passage import Passage
from gpudoctor.read.job.source import COMMAND
from gpudoctor.read.job.source_child import SourceAnswer, SourceRequest
from gpudoctor.read.job.source_ways import Ways
from gpudoctor.snapshot.evidence import Collective, Frame, Recorder, SourceContext, Thread, Unread

MOST_SOURCES = 8
"""User frames of a main thread whose source is read: the user's part of a stack is rarely deeper."""
MOST_LOOPS = 8
"""Frames of a framework's loop, the outermost: `train`, its inner loop, an epoch, a step."""
MOST_IN_LIBRARIES = 6
"""Frames of libraries from where ranks part inside of one, inwards."""
MOST_DEPTH = 96
MOST_LINES = 2048
"""Lines of one order that are looked at; a thousand ranks stand at some dozens."""
MOST_ENTRIES = 12
"""Entries of a flight recorder whose lines are looked at: what a rank has not completed, and what it did before."""
MOST_PASSAGES = 4
"""Lines of their last collectives from which ranks that did not come may be on different ways."""
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
        by_pid: dict[int, tuple[SourceContext, ...]] = {}
        libraries = where_libraries_part(mains)
        with self._lock:
            for pid, main in mains.items():
                frames = [frame for frame in main.frames if not frame.native and is_user(frame)]
                program = next((frame.file for frame in frames if frame.function == "<module>"), "")
                folder = program.rpartition("/")[0]  # before what `pip install --target` has put elsewhere
                own = [frame for frame in frames if frame.file.startswith(folder)]
                frames = own + [frame for frame in frames if not frame.file.startswith(folder)]
                drives = [frame for frame in main.frames if not frame.native and drives_training(frame.file)]
                wanted = [*frames[:MOST_SOURCES], *drives[-MOST_LOOPS:], *libraries.get(pid, ())]
                by_pid[pid] = self._with_backwards(pid, wanted, deadline, program)
        return by_pid

    def recorded(self, pid: int, recorder: Recorder, deadline: float) -> tuple[SourceContext, ...]:
        """Of the lines from which a rank has started its last collectives, which it need not have waited for there."""
        with self._lock:
            frames = (frame for entry in last_entries(recorder) for frame in entry.frames[:MOST_SOURCES])
            return self._with_backwards(pid, list(dict.fromkeys(filter(is_user, frames))), deadline)

    def left(self, dumps: Sequence[Recorder], deadline: float) -> tuple[SourceContext, ...]:
        """Of the lines from which ranks that are gone had called their last collectives, and the last one that the
        program has called itself, of files as they were then."""
        lines: dict[Frame, float] = {}
        for dump in dumps:
            for entry in (*last_entries(dump), *_last_called(dump)):
                for frame in filter(is_user, entry.frames[:MOST_SOURCES]):
                    lines[frame] = min(dump.written_at, lines.get(frame, dump.written_at))
        contexts = self.then(lines, deadline)
        parts = parted_by(dumps)
        if parts is None or not (behind := self._behind(parts, min(lines.values(), default=0.0))):
            return contexts
        at = parts.stack[0]
        return tuple(
            structs.replace(each, behind=behind) if (each.file, each.line) == (at.file, at.line) else each
            for each in contexts
        )

    def _behind(self, parts: PartedBy, until: float) -> Passage:
        """What lies behind the last collectives of those that did not come; () where that is not the same of all."""
        lasts = dict.fromkeys(tuple(filter(is_user, entry.frames)) for entry in parts.away.values())
        if not all(lasts) or len(lasts) > MOST_PASSAGES:
            return ()
        passages = [self.passage(parts.stack, "", 0, until, last) for last in lasts]
        ways = {told_on(passage).decides if passage else None for passage in passages}
        return (passages[0] or ()) if len(ways) == 1 and None not in ways else ()

    def then(self, lines: Mapping[Frame, float], deadline: float) -> tuple[SourceContext, ...]:
        """Of lines of the program, of files that have not changed since a time (time.time())."""
        with self._lock:
            until = min(lines.values(), default=0.0)
            every = self._with_backwards(os.getpid(), list(lines), deadline, until=until)
        return tuple(filter(fits, every))

    def passage(
        self,
        stack: Sequence[Frame],
        said: str,
        further: int,
        until: float,
        last: Sequence[Frame] = (),
        *,
        hooked: bool = False,
    ) -> Passage | None:
        """What lies between the statement that has written a line, or the last collective that a rank has come to, and
        where others waited, in each of the files."""
        with self._lock:
            for file in dict.fromkeys(frame.file for frame in stack if not frame.file.startswith("<")):
                own = tuple(frame for frame in stack if frame.file == file)
                before = tuple(frame for frame in last if frame.file == file)
                if last and not before:
                    continue
                asked = SourceRequest(os.getpid(), own[0], until=until, stack=own, said=said, further=further)
                asked = structs.replace(asked, hooked=hooked, last=before)
                try:
                    answer = self._reader.ask(msgspec.json.encode(asked), SECONDS_OF_A_LINE)
                    between = msgspec.json.decode(answer, type=SourceAnswer).passage
                except (NotAnswered, msgspec.DecodeError) as error:
                    self.unread.append(Unread(f"source file {file}", str(error), 0))
                    continue
                if between is not None:
                    return between
        return None

    def ways(self, file: str, said: Sequence[str], until: float) -> Ways | None:
        """Every way by which a file comes to a collective, where nothing else may call one in its name. `said`: lines
        of the program, of which one that is named by a relative path must write one."""
        asked = SourceRequest(os.getpid(), Frame("<module>", file, 1), until=until, ways=tuple(said))
        with self._lock, contextlib.suppress(NotAnswered, msgspec.DecodeError):
            return msgspec.json.decode(
                self._reader.ask(msgspec.json.encode(asked), SECONDS_OF_A_LINE), type=SourceAnswer
            ).ways
        return None

    def _with_backwards(
        self, pid: int, frames: Sequence[Frame], deadline: float, main: str = "", until: float = 0.0
    ) -> tuple[SourceContext, ...]:
        """Also of the backward of these functions: what DDP and FSDP start in it names no line."""
        every = (self._context(pid, frame, deadline, main, until) for frame in frames)
        contexts = [context for context in every if context is not None]
        for context in tuple(contexts):
            lines = (call.line for call in context.calls if call.kind == "backward")
            own = [Frame(context.function, context.file, line) for line in lines if line != context.line]
            for call in context.gradients:
                inner = Frame(call.kind, context.file, int(call.text))
                own += [Frame(context.function, context.file, call.line), inner]
            contexts += filter(None, (self._context(pid, frame, deadline, main, until) for frame in own))
        return tuple({(context.file, context.line): context for context in contexts}.values())

    def end(self) -> None:
        self._reader.end()

    def _context(self, pid: int, frame: Frame, deadline: float, main: str, until: float = 0.0) -> SourceContext | None:
        of_command = (frame.file, frame.function, main) == (COMMAND, "<module>", COMMAND)
        if frame.line <= 0 or not frame.file or (frame.file.startswith("<") and not of_command):
            return None
        view = _view(pid)
        key = (*view, str(pid) * of_command), frame
        if key in self._known or (view, frame.file) in self._refused or len(self._known) >= MOST_LINES:
            return self._known.get(key)
        if time.monotonic() >= deadline:
            late = Unread("source files", "there was no time left to read all of them", 0)
            self.unread += [late] * (late not in self.unread)
            return None
        try:
            asked = msgspec.json.encode(SourceRequest(pid, frame, main, until))
            answer = self._reader.ask(asked, SECONDS_OF_A_LINE, deadline)
            self._known[key] = msgspec.json.decode(answer, type=SourceAnswer).context
        except (NotAnswered, msgspec.DecodeError) as error:
            self._refused.add((view, frame.file))
            self.unread.append(Unread(f"source file {frame.file} of pid {pid}", str(error), pid))
        return self._known.get(key)


def where_libraries_part(mains: Mapping[int, Thread]) -> dict[int, list[Frame]]:
    """Of main threads that part inside of a library, the frames from there inwards up to torch.distributed: what is
    around them there leads apart, as `if local_rank_zero: prepare_data()` in Lightning. And the innermost frame of one
    that waits in a method written in C, as `self.barrier()` of a process group."""
    stacks = {pid: [frame for frame in reversed(main.frames) if not frame.native] for pid, main in mains.items()}
    found: dict[int, list[Frame]] = {}
    together = [[pid for pid, stack in stacks.items() if stack]]
    for depth in range(MOST_DEPTH):
        parties: dict[tuple[int, Frame], list[int]] = {}
        for number, pids in enumerate(together):
            own: dict[Frame, list[int]] = {}
            for pid in pids:
                if depth < len(stacks[pid]):
                    own.setdefault(stacks[pid][depth], []).append(pid)
            for frame, some in own.items():
                parties[number, frame] = some
                if len(own) > 1 and any(is_library(each) for each in own):
                    found |= {pid: _in_libraries(stacks[pid][depth:]) for pid in some}
        together = [pids for pids in parties.values() if len(pids) > 1]
        if not together:
            break
    for pid, stack in stacks.items():
        if stack and is_library(stack[-1]) and not is_marked(stack[-1]):
            found[pid] = [*found.get(pid, ()), stack[-1]]
    return found


def _in_libraries(frames: Sequence[Frame]) -> list[Frame]:
    """The frames of libraries, outermost first, up to torch.distributed's own."""
    until = next((at for at, frame in enumerate(frames) if frame.file.endswith(C10D)), len(frames))
    return list(filter(is_library, frames[:until]))[:MOST_IN_LIBRARIES]


def fits(context: SourceContext) -> bool:
    """Whether the line stands in the function that was named: else it is another file, or another state of it."""
    if context.function.startswith("<") and context.function != "<module>":
        return True  # a lambda or a comprehension
    around = next((enclosing.text for enclosing in context.enclosing if enclosing.kind == "function"), "<module>")
    return around == context.function.rpartition(".")[2]


def last_entries(recorder: Recorder) -> Sequence[Collective]:
    """Those that have not completed, and the ones before them."""
    entries = recorder.entries
    first = next((at for at, entry in enumerate(entries) if entry.state != "completed"), len(entries))
    return entries[max(0, first - MOST_ENTRIES // 2) :][:MOST_ENTRIES]


def _last_called(dump: Recorder) -> Iterator[Collective]:
    """Of a training whose collectives DDP's hooks have started for long, the one that tells where its loop stands."""
    called = (entry for entry in reversed(dump.entries) if any(map(is_user, entry.frames)))
    yield from islice(called, 1)


def _view(pid: int) -> View:
    contexts = []
    for name in ("ns/mnt", "ns/user", "root", "cwd"):
        try:
            contexts.append(str((PROC / str(pid) / name).readlink()))
        except OSError:
            contexts.append(str(pid))
    return tuple(contexts)
