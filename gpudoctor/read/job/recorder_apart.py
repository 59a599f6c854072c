"""Dumps of flight recorders, read by child processes: each dump is bounded in time and memory, and all of them are.

One dump takes 20 ms, and a large job has a thousand: several children read at once.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gpudoctor import crowded
from gpudoctor.read.apart import Apart, NotAnswered
from gpudoctor.read.job import recorder_files
from gpudoctor.read.job.recorder_child import DumpAnswer, DumpRequest, Listed
from gpudoctor.read.job.recorder_pickle import UnreadableDump
from gpudoctor.snapshot.evidence import Recorder, Unread

WORTH_A_CHILD = 32
"""Dumps from which a child's start (a third of a second) is won back."""
MOST_CHILDREN = 16
SECONDS_OF_A_DUMP = 10.0
"""A dump that torch has not written may take two; a machine under load makes more of it."""
SECONDS_OF_A_FOLDER = 15.0
SECONDS_OF_ALL = 90.0
"""Of a folder; a thousand dumps take ten on two processors. More on a crowded machine (`crowded`)."""
MOST_OF_ALL = 256 * 1024 * 1024
"""Bytes of what is kept of all dumps of a folder; of one it is some 30 kB."""
TELL_SECONDS = 0.2
Waiting = Callable[[], None]
"""Called several times a second."""


class Readers:
    """So many children, each started when first asked."""

    def __init__(self, count: int) -> None:
        self._every = [Apart("gpudoctor.read.job.recorder_child", "flight recorders") for _ in range(count)]
        self._free: queue.SimpleQueue[Apart] = queue.SimpleQueue()
        for apart in self._every:
            self._free.put(apart)

    def of_bytes(self, raw: bytes, source: str, written_at: float, seconds: float) -> Recorder:
        """The recorder that a dump holds. Raises `UnreadableDump`."""
        try:
            answer = self._asked(DumpRequest("bytes", b"", source=source, written_at=written_at), seconds, raw)
            recorder = msgspec.json.decode(answer, type=DumpAnswer).recorder
        except (NotAnswered, msgspec.DecodeError) as error:
            raise UnreadableDump(str(error)) from None
        if recorder is None:
            raise UnreadableDump("no answer came of reading it")
        return recorder

    def of_file(self, path: Path, rank: int, seconds: float) -> tuple[Recorder | Unread, int]:
        """The dump of a rank, or why it is not read; and the bytes that it takes."""
        source = recorder_files.shown(path)
        try:
            said = self._asked(DumpRequest("file", recorder_files.name_of(path), rank), seconds)
            answer = msgspec.json.decode(said, type=DumpAnswer)
        except (NotAnswered, msgspec.DecodeError) as error:
            return Unread(f"flight recorder {source}", str(error)), 0
        what = answer.recorder or answer.unread
        return what or Unread(f"flight recorder {source}", "no answer came of reading it"), len(said)

    def listed(self, folder: Path, seconds: float) -> Listed:
        """Raises `NotAnswered`."""
        answer = self._asked(DumpRequest("folder", recorder_files.name_of(folder)), seconds)
        return msgspec.json.decode(answer, type=Listed)

    def end(self) -> None:
        for apart in self._every:
            apart.end()

    def _asked(self, request: DumpRequest, seconds: float, raw: bytes = b"") -> bytes:
        reader = self._free.get()
        try:
            return reader.ask(msgspec.json.encode(request) + b"\n" + raw, seconds)
        finally:
            self._free.put(reader)


def of_folder(folder: str | Path, waiting: Waiting | None = None) -> tuple[tuple[Recorder, ...], tuple[Unread, ...]]:
    """The dumps of a folder, or of one file, by rank; and what could not be read there: which bound was met.

    A dump's name ends in its rank, whatever stands before it. Where the folder holds several sets (names with different
    beginnings), the set with the most ranks counts, of equal ones the newest.
    """
    first = Readers(1)
    try:
        listed = first.listed(Path(folder), SECONDS_OF_A_FOLDER)
    except NotAnswered as error:
        return (), (Unread(f"flight recorders in {recorder_files.shown(Path(folder))}", str(error)),)
    finally:
        first.end()
    dumps = [(recorder_files.path_of(name), rank) for name, rank in listed.dumps]
    recorders, unread = _Every(dumps).read(waiting)
    return recorders, (*listed.unread, *unread)


class _Every:
    """All dumps of a folder on their way."""

    def __init__(self, dumps: Sequence[tuple[Path, int]]) -> None:
        self.dumps = dumps
        self.seconds = SECONDS_OF_ALL * crowded.slowdown()
        self.deadline = time.monotonic() + self.seconds
        self.left: queue.SimpleQueue[tuple[Path, int]] = queue.SimpleQueue()
        self.found: dict[int, Recorder | Unread] = {}
        self.size = 0
        self.lock = threading.Lock()
        for dump in dumps:
            self.left.put(dump)

    def read(self, waiting: Waiting | None) -> tuple[tuple[Recorder, ...], tuple[Unread, ...]]:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = max(1, min(MOST_CHILDREN, processors, len(self.dumps) // WORTH_A_CHILD))
        readers = Readers(count)
        threads = [threading.Thread(target=self._work, args=(readers,), daemon=True) for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive() and time.monotonic() < self.deadline:
                    if waiting is not None:
                        waiting()
                    thread.join(TELL_SECONDS)
        finally:
            readers.end()
        with self.lock:
            done = dict(self.found)
        return self._told(done)

    def _work(self, readers: Readers) -> None:
        while (seconds := self.deadline - time.monotonic()) > 0 and self.size <= MOST_OF_ALL:
            try:
                path, rank = self.left.get_nowait()
            except queue.Empty:
                return
            answer, size = readers.of_file(path, rank, min(seconds, SECONDS_OF_A_DUMP))
            with self.lock:
                if time.monotonic() < self.deadline:
                    self.found[rank] = answer
                    self.size += size

    def _told(self, done: dict[int, Recorder | Unread]) -> tuple[tuple[Recorder, ...], tuple[Unread, ...]]:
        recorders = tuple(recorder for _, recorder in sorted(done.items()) if isinstance(recorder, Recorder))
        unread = [unread for _, unread in sorted(done.items()) if isinstance(unread, Unread)]
        rest = [path for path, rank in self.dumps if rank not in done]
        if rest:
            size = f"what is kept of the others is more than {MOST_OF_ALL >> 20} MiB"
            bound = size if self.size > MOST_OF_ALL else f"all together took longer than {self.seconds:.3g} s"
            more = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
            unread.append(Unread(f"flight recorder {recorder_files.shown(rest[0])}{more}", f"not read: {bound}"))
        return recorders, tuple(unread)
