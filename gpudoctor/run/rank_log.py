"""What one rank says through Python's sys.stdout and sys.stderr, kept beside: runs in the user's own process.

Loaded by its path from the sitecustomize of site/, with the standard library alone. What is written goes where it went,
by the same descriptors 1 and 2 (so it follows the program's own dup2), and then into a file of this rank. What native
code writes itself does not come by here; the log of the whole job has it. Whatever goes wrong with the file ends the
copy, and nothing else.
"""

import io
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD_BYTES = TAIL_BYTES = 2 * 1024 * 1024
TAILS = ("tail-1", "tail-2")
HIGH = (960, 100)
"""Our descriptor is none that a program expects to be given; the second where so high a one is not allowed."""
SURE_SECONDS = 0.25
"""For so long our descriptor is taken for ours: to look costs as much as to write a line. Until a program that has
closed all descriptors is given this number again it opens hundreds of files."""
UNSEEN_BYTES = 1 << 16
"""Nor is more written before a look, which sees how large the file has become."""


class RankLog:
    """A file of the first bytes, then two that take turns for the last. A descriptor that the program has closed, and
    that is another file by now, is not written to."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        self.turn = -1
        self.pid = os.getpid()
        self.file = -1
        self.known = (0, 0)
        self.sure_until, self.unseen = 0.0, 0
        self.open(name + ".log", 0)

    def open(self, name: str, flags: int) -> None:
        """The file that is written from now on."""
        import fcntl

        flags |= os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        low = os.open(f"{self.folder}/{name}", flags, 0o600)
        try:
            try:
                self.file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH[0])
            except OSError:
                self.file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH[1])
        finally:
            os.close(low)
        stat = os.fstat(self.file)
        self.known = stat.st_dev, stat.st_ino

    def write(
        self,
        text: "Any",
        fstat: "Any" = os.fstat,
        write: "Any" = os.write,
        getpid: "Any" = os.getpid,
        clock: "Any" = time.monotonic,
    ) -> None:
        """Never raises. The names are bound: at the end of Python modules lose theirs."""
        if self.file < 0:
            return
        try:
            now = clock()
            self.unseen += len(text)
            if now >= self.sure_until or self.unseen > UNSEEN_BYTES:
                self.sure_until, self.unseen = now + SURE_SECONDS, 0
                stat = fstat(self.file)
                if (stat.st_dev, stat.st_ino) != self.known:
                    self.file = -1
                    return
                if stat.st_size >= (HEAD_BYTES if self.turn < 0 else TAIL_BYTES) and getpid() == self.pid:
                    self.turn += 1  # a forked child's words are too few to turn the page for
                    before = self.file
                    self.open(f"{self.name}.{TAILS[self.turn % 2]}", os.O_TRUNC)
                    os.close(before)
            write(self.file, text)
        except BaseException as error:
            self.file = -1
            if not isinstance(error, Exception):  # Ctrl-C is the program's
                raise


class CopiedStream(io.FileIO):
    """Descriptor 1 or 2, as Python's own raw file of it, with a copy of what was written."""

    def __init__(self, number: int, log: RankLog, name: str) -> None:
        super().__init__(number, "w", closefd=False)
        self.log = log
        self.name = name

    def write(self, data: "Any", plain: "Any" = io.FileIO.write) -> "Any":
        """As the raw file does; of what it took, a copy."""
        done = plain(self, data)
        if done:
            self.log.write(data if done == len(data) else bytes(memoryview(data).cast("B")[:done]))
        return done


def copied(stream: "Any", log: RankLog) -> "Any":
    """A stream like this one, over a raw file that is copied."""
    stream.flush()
    raw = CopiedStream(stream.fileno(), log, stream.name)
    buffer = raw if isinstance(stream.buffer, io.RawIOBase) else io.BufferedWriter(raw)
    made = io.TextIOWrapper(
        buffer,  # type: ignore[arg-type,unused-ignore]
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    made.mode = stream.mode  # type: ignore[misc,unused-ignore]
    return made


def keep(folder: str, name: str) -> None:
    """From now on what this process says by sys.stdout and sys.stderr is kept in that folder too."""
    log = RankLog(folder, name)
    for which, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, which)
        if type(stream) is io.TextIOWrapper and stream is getattr(sys, f"__{which}__") and stream.fileno() == number:
            made = copied(stream, log)
            setattr(sys, which, made)
            setattr(sys, f"__{which}__", made)


def name_of(environ: "Any") -> str:
    """Of the file of this rank: by the number that its launcher gave it, and its start; empty where it has none."""
    names = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"] + (["SLURM_PROCID"] if "SLURM_STEP_ID" in environ else [])
    number = next((environ[name] for name in names if environ.get(name, "").isdigit()), "")
    if not number or len(number) > 6:
        return ""
    again = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return "rank-" + number + (f"-start-{int(again) + 1}" if again.isdigit() and int(again) else "")
