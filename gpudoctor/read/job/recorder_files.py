"""Files that flight recorders were dumped to: found, opened with care, read one at a time.

The names come from a job's environment or a user's folder, so nothing but a regular file of bounded size is opened: no
symlink at its place, no FIFO that nobody writes to, no device.
"""

import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from errno import ENOENT
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from gpudoctor.lazy import lazy_re
from gpudoctor.read import apart
from gpudoctor.read.job import inside, recorder_entries
from gpudoctor.read.job.recorder_entries import MOST_RANKS
from gpudoctor.read.job.recorder_pickle import MOST_BYTES, UnreadableDump, plain, without_collection
from gpudoctor.read.job.refusals import DENIED
from gpudoctor.read.process import seen
from gpudoctor.snapshot.evidence import Recorder, Unread

PROC = Path("/proc")
FILE_SETTINGS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""The name of a dump without its rank; the older name counts where the newer is not set."""
DEFAULTS = ("/tmp/torch/comm_lib_trace_rank_", "/tmp/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_")
"""Where neither is set: torch 2.9 on without a home; up to 2.8."""
MOST_FILES = 8192
MOST_NAMES = 65536
MOST_SETS = 16
MOST_UNREAD = 256
LONGEST_PATH = 4096
START_IS_KNOWN_TO = 2.0
"""Seconds: boot time and the clock's steps since."""
_NAME = lazy_re(r"(?P<prefix>.*?)(?P<rank>\d{1,7})(?:\.(?:json|pkl|pickle|bin|dump|trace))?", re.DOTALL)
_BEGINS = lazy_re(rb"\x80[\x00-\x05]|\s{0,64}[\[{]|[(\]}]")
"""A pickle of protocol 2 to 5, JSON, a pickle of protocol 0 or 1."""


Read = Callable[[bytes, str, float], Recorder]
"""What reads the bytes of a dump (source, time at which it was written): `read` below, in a child process."""


class FoundDump(NamedTuple):
    """A file that may be a rank's dump."""

    path: str
    """As its process names it."""
    written_at: float
    size: int


def read(raw: bytes, source: str, written_at: float = 0.0) -> Recorder:
    """Read a dump, a pickle or JSON, cut down as `Recorder` says.

    Raises `RefusedDump` where it wants something to be run, and `UnreadableDump` where it is cut short or foreign.
    """
    return without_collection(lambda: recorder_entries.recorder(plain(raw), source, written_at))


def content(path: str | Path) -> bytes:
    """The bytes of a regular file. Raises `OSError`, and `UnreadableDump` for anything else and for too large a one."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY"):
        flags |= getattr(os, name, 0)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise UnreadableDump("it is no regular file (a symlink, FIFO or device); links are not followed")
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb"):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableDump("it is no regular file")
        return _bounded(descriptor)


def _bounded(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > MOST_BYTES:
        raise UnreadableDump(f"it has {size / 1e6:.0f} MB; a flight recorder has less than 33")
    return apart.taken(descriptor, MOST_BYTES + 1)


# ---------------------------------------------------------------- a folder


def listed(folder: Path) -> tuple[list[tuple[Path, int]], list[Unread]]:
    """The dumps of a folder, of one file, or of all whose names begin so ("/tmp/nccl_trace_rank_"), with their ranks;
    and what is left out. In a child: it may not answer."""
    unread: list[Unread] = []
    where = f"flight recorders in {shown(folder)}"
    try:
        names = _names(folder)
    except OSError as error:
        return [], [Unread(where, str(error.strerror or error))]
    sets: dict[str, dict[int, Path]] = defaultdict(dict)
    for path in names:
        match = _NAME.fullmatch(path.name)
        if match is not None and int(match["rank"]) < MOST_RANKS and _begins_like_a_dump(path, unread):
            sets[match["prefix"]][int(match["rank"])] = path
    if not sets:
        if not unread:
            unread.append(Unread(where, "no dump is there; the name of a dump ends in its rank (nccl_trace_rank_0)"))
        return [], unread
    chosen, *others = sorted(sets, key=lambda prefix: (-len(sets[prefix]), -_newest(sets[prefix]), prefix))
    for prefix in others[:MOST_SETS]:
        what = f"flight recorders {shown(Path(prefix))}* in {shown(folder)}"
        reason = f"{len(sets[prefix])} dumps left out: the folder has more of {shown(Path(chosen))}*"
        unread.append(Unread(what, reason))
    ranks = sorted(sets[chosen])
    if len(names) >= MOST_NAMES or len(ranks) > MOST_FILES:
        unread.append(Unread(where, f"there are more than are looked at: {MOST_NAMES} names, {MOST_FILES} dumps"))
    return [(sets[chosen][rank], rank) for rank in ranks[:MOST_FILES]], unread[:MOST_UNREAD]


def name_of(path: Path) -> bytes:
    """A path as the bytes that it is."""
    return os.fsencode(path)


def path_of(name: bytes) -> Path:
    return Path(os.fsdecode(name))


def shown(path: Path) -> str:
    """A path in texts that travel as UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def of_file(path: Path, rank: int) -> Recorder | Unread:
    """The dump of a rank, or why it is not read. In a child: it may take all the time and memory that there is."""
    try:
        return replace(read(content(path), shown(path), path.lstat().st_mtime), rank=rank)
    except (OSError, UnreadableDump) as error:
        return Unread(f"flight recorder {shown(path)}", _reason(error))


def _names(folder: Path) -> list[Path]:
    stem = ""
    if not folder.is_dir():
        if os.path.lexists(folder):
            return [folder]
        folder, stem = folder.parent, folder.name
    with os.scandir(folder) as entries:
        names = (entry for entry in entries if entry.name.startswith(stem))
        paths = sorted(Path(entry.path) for _, entry in zip(range(MOST_NAMES), names, strict=False))
    if stem and not paths:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
    return paths


def _newest(dumps: Mapping[int, Path]) -> float:
    times = []
    for path in dumps.values():
        try:
            times.append(path.lstat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _begins_like_a_dump(path: Path, unread: list[Unread]) -> bool:
    """Whether a file is worth reading. What cannot be one, and has no dump's name either, is passed over in silence."""
    named = "rank" in path.name or "trace" in path.name
    try:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            return False
        if not stat.S_ISREG(status.st_mode):
            if named:
                reason = "it is no regular file (a symlink, FIFO or device); links are not followed"
                unread.append(Unread(f"flight recorder {shown(path)}", reason))
            return False
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            start = file.read(66)
    except OSError as error:
        if named:
            unread.append(Unread(f"flight recorder {shown(path)}", _reason(error)))
        return False
    if _BEGINS.match(start):
        return True
    if named:
        unread.append(
            Unread(f"flight recorder {shown(path)}", "it is empty" if not start else "it is neither pickle nor JSON")
        )
    return False


def _reason(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)


# ---------------------------------------------------------------- the dump of a process


def places(rank: int, environment: Mapping[str, str]) -> Iterator[str]:
    """Where the dump of a rank may lie, as its process names the files."""
    for setting in FILE_SETTINGS:
        if stem := environment.get(setting, ""):
            yield f"{stem}{rank}"[:LONGEST_PATH]
            return
    cache = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME", "")
    if cache or home:
        yield f"{cache or home + '/.cache'}/torch/comm_lib_trace_rank_{rank}"[:LONGEST_PATH]
    for stem in DEFAULTS:
        yield f"{stem}{rank}"


def dumps_of(pid: int, rank: int, environment: Mapping[str, str]) -> tuple[list[FoundDump], list[Unread]]:
    """The files that are there of a rank's dump, newest first: its own user's, written since it started."""
    began = started_at(pid)
    try:
        owner = inside.rights(pid).user
    except OSError:
        return [], []  # it has ended
    dumps, unread = [], []
    if not os.access(PROC / str(pid) / "root" / ".", os.X_OK):
        return [], [_unread(rank, pid, DENIED)]
    for place in places(rank, environment):
        try:
            with inside.found(pid, place) as file:
                status = os.fstat(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread.append(_unread(rank, pid, f"{place}: {_reason(error)}"))
            continue
        if began is not None and status.st_mtime < began - START_IS_KNOWN_TO:
            continue  # of an earlier run
        if status.st_uid != owner:
            unread.append(_unread(rank, pid, f"{place} belongs to another user"))
            continue
        dumps.append(FoundDump(place, status.st_mtime, status.st_size))
    return sorted(dumps, key=lambda dump: -dump.written_at), unread


def read_dump(dump: FoundDump, pid: int, rank: int, read: Read) -> Recorder:
    """Read a file that `dumps_of` has found. Raises `OSError` and `UnreadableDump`, also for another process's dump."""
    with inside.regular(pid, dump.path, link=False) as file:
        if os.fstat(file).st_uid != inside.rights(pid).user:
            raise UnreadableDump("it belongs to another user")
        raw = _bounded(file)
    recorder = replace(read(raw, dump.path, dump.written_at), rank=rank)
    began = started_at(pid)
    first = next((entry.created_ns for entry in recorder.entries if entry.created_ns > 0), 0)
    if began is not None and first and first / 1e9 < began - START_IS_KNOWN_TO:
        raise UnreadableDump("it holds collectives from before this process: another job has written it")
    return recorder


def started_at(pid: int) -> float | None:
    """When a process was started, as time.time(); None where that is not told."""
    process = seen(pid)
    if process is None:
        return None
    try:
        for line in (PROC / "stat").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("btime "):
                return float(line.split()[1]) + process.start_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        pass
    return None


def _unread(rank: int, pid: int, reason: str) -> Unread:
    return Unread(f"flight recorder of rank {rank}", reason, pid)


def wait_for(
    pid: int, rank: int, environment: Mapping[str, str], before: Collection[FoundDump], deadline: float
) -> FoundDump | None:
    """A dump that was not there `before`, or is another now, once it stops growing; None when none came in time."""
    last: FoundDump | None = None
    while True:
        now = next((found for found in dumps_of(pid, rank, environment)[0] if found not in before), None)
        if now is not None and now.size and now == last:
            return now
        last = now
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.1)
