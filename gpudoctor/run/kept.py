"""The folder in which a run keeps its log and what was found: private, made before the command is started.

Below the user's state folder old ones are removed, oldest first, until few and small enough ones are left; never one
whose run goes on (it holds a lock), and nothing in a folder that was named with --report.
"""

import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpudoctor.lazy import lazy_re
from gpudoctor.read.system import within
from gpudoctor.run import relay

ANSWER_SECONDS = 5.0
MOST_RUNS = 20
MOST_BYTES = 512 * 1024 * 1024
LOCK = "lock"
NAME = lazy_re(r"[0-9]{8}-[0-9]{6}-[0-9]{1,10}(-[0-9]{1,3})?")
MOST_OF_A_SECOND = 1000
OUTPUT, SECOND = relay.HEAD, "output-2.log"
"""The second: of a file, where the other stream passed through the relay."""
OF_RANKS = lazy_re(
    r"(?:rank|process)-(?P<number>[0-9]{1,10})(?:-start-(?P<start>[0-9]{1,4}))?\.(?P<part>log|tail-[12])"
)
MOST_LOGS = 64
MAY_BE_FULL = "the disk may be full, or does not answer"


class NoFolder(Exception):
    """Why nothing can be kept, as a phrase."""


class Kept:
    """An open report folder; the lock is held by everybody who has `lock` open."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder, self.lock = folder, lock

    def write(self, name: str, content: bytes) -> bool:
        """A file in it, whole or not at all, for its owner alone; whether it is there. A full disk is no failure of the
        run's."""
        beside = self.folder / f".{name}"
        with contextlib.suppress(OSError):
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                with open(file, "wb") as stream:  # noqa: PTH123 - a descriptor
                    stream.write(content)
                beside.replace(self.folder / name)
                return True
            except OSError:
                beside.unlink()
        return False


def logs(folder: Path) -> tuple[str, ...]:
    """Names of what was kept of the command's output, the whole of it first, then by rank."""
    logs_kept = [(int(rank["number"]), rank.string) for rank in _of_ranks(folder) if rank["part"] == "log"]
    return (
        *(name for name in (OUTPUT, SECOND) if (folder / name).exists()),
        *(name for _, name in sorted(logs_kept)[:MOST_LOGS]),
    )


def full() -> str:
    """Why something could not be written, as a phrase."""
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limited = most != resource.RLIM_INFINITY
    return f"no file may be larger than {most} bytes (ulimit -f), or the disk is full" if limited else MAY_BE_FULL


def said(folder: Path | None) -> int | None:
    """Bytes of what the command has said by now, as long as one file holds all of it; None: it does not."""
    if folder is None or any((folder / name).exists() for name in relay.TAILS):
        return None
    try:
        return (folder / OUTPUT).stat().st_size
    except OSError:
        return None


def join_parts(folder: Path) -> None:
    """Of each rank one file: the first of what it said, then the last."""
    tails = {rank.string for rank in _of_ranks(folder) if rank["part"] != "log"}
    for stem in {name.rpartition(".")[0] for name in tails}:
        with contextlib.suppress(OSError):
            parts = [folder / name for name in tails if name.startswith(f"{stem}.")]
            with (folder / f"{stem}.log").open("ab") as log:
                log.write(b"\n[gpudoctor: some of it may be left out here]\n")
                for part in sorted(parts, key=lambda part: part.stat().st_mtime_ns):
                    log.write(part.read_bytes())
                    part.unlink()


def _of_ranks(folder: Path) -> Iterator[re.Match[str]]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if (match := OF_RANKS.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
                yield match


def state_folder(environment: Mapping[str, str]) -> Path:
    """Where the runs of this user are kept. Raises `NoFolder`."""
    state = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # noqa: PTH117 - what the specification says of others: they are ignored
        return Path(state, "gpudoctor", "runs")
    home = environment.get("HOME") or _home_of_user()  # a service of the system has no HOME
    if not os.path.isabs(home):  # noqa: PTH117
        raise NoFolder("HOME is not set" if not home else f"HOME is no whole path: {home}")
    return Path(home, ".local", "state", "gpudoctor", "runs")


def _home_of_user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container that runs under a number of its own
        return ""


def make(parent: Path | None, environment: Mapping[str, str]) -> Kept:
    """A new folder for this run, below `parent` or the user's state folder. Raises `NoFolder`, also where that stands
    on a mount that does not answer: the job need not wait for its doctor."""
    place = parent or state_folder(environment)

    def work() -> Kept:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the doctor's are for its main thread
        return _make(parent, environment)

    try:
        return within(ANSWER_SECONDS, f"the file system of {place}", work)
    except TimeoutError as error:
        raise NoFolder(str(error)) from None
    except RuntimeError:  # no thread may be started (ulimit -u, -v)
        return _make(parent, environment)


def _make(parent: Path | None, environment: Mapping[str, str]) -> Kept:
    try:
        if parent is None:
            root = state_folder(environment)
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = root.lstat()
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
                raise NoFolder(f"{root} is another user's, or others may write in it")
            _remove_old(root)
        else:
            root = parent.absolute()
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _new(root)
        return Kept(folder, _locked(folder))
    except FileExistsError as error:
        raise NoFolder(f"{error.filename or parent} is no folder") from None
    except OSError as error:
        raise NoFolder(f"{error.filename or parent}: {error.strerror or error}") from None


def _new(root: Path) -> Path:
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    for number in range(MOST_OF_A_SECOND):
        folder = root / (f"{name}-{number}" if number else name)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise NoFolder(f"{root}: all names of this second are taken")


def _locked(folder: Path) -> int:
    import fcntl

    lock = os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _remove_old(root: Path) -> None:
    """What is more than `MOST_RUNS`, this one counted, or beyond `MOST_BYTES`; names tell their age."""
    with contextlib.suppress(OSError):
        runs = sorted((entry.name for entry in os.scandir(root) if NAME.fullmatch(entry.name)), reverse=True)
        space = MOST_BYTES
        for number, name in enumerate(runs):
            space -= _size(root / name)
            if number >= MOST_RUNS - 1 or space < 0:
                _remove(root / name)


def _size(folder: Path) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for place, _, files in os.walk(folder):
            for name in files:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118
    return total


def _remove(folder: Path) -> None:
    import fcntl
    import shutil

    with contextlib.suppress(OSError):
        lock = os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its run goes on, or no lock can tell
            return
        finally:
            os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
