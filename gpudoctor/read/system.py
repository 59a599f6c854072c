"""The boundary to the machine: files, folders, the environment, all relative to a root that tests can move.

Readers take a `System` and reach every file through it, so each can be run on a tree of a test's making.
"""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from gpudoctor import programs, threads
from gpudoctor.snapshot import Reading, absent, missing, read

T = TypeVar("T")

MAXIMUM_FILE_BYTES = 16 * 1024 * 1024
"""No file that a reader wants is larger; more is a mistake or an attack."""
CHUNK_BYTES = 64 * 1024


class NodeStatus(NamedTuple):
    """What stat(2) and access(2) say of a file."""

    mode: int
    user_id: int
    group_id: int
    readable: bool
    writable: bool
    size: int = 0
    device: int = 0
    """Number of the file system's device (os.major, os.minor)."""
    inode: int = 0


COMMAND_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin")
"""Where the system's own commands lie (the last: NixOS). Not $PATH: root must not run what a user put there."""


class System:
    """A machine, or a folder that looks like one."""

    def __init__(
        self,
        root: str | Path = "/",
        environment: Mapping[str, str] | None = None,
        *,
        platform: str = sys.platform,
        patience: float = 6.0,
    ) -> None:
        self.root = Path(root)
        self._prefix = str(self.root).rstrip("/")
        self.environment: Mapping[str, str] = dict(os.environ) if environment is None else environment
        self.is_linux = platform.startswith("linux")
        self.patience = patience
        """Seconds that a reader waits for one answer that may never come (a dead mount, a command)."""

    def at(self, path: str) -> Path:
        """Where `path` (absolute on the machine) lies under the root."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """A file's content, stripped of surrounding whitespace. Raises `OSError`."""
        return self.raw(path).decode("utf-8", "replace").strip()

    def raw(self, path: str, limit: int = MAXIMUM_FILE_BYTES) -> bytes:
        """The first `limit` bytes of a file. Raises `OSError`."""
        chunks: list[bytes] = []
        left = limit
        # By the system's own calls: of files of one line, read twice a second, pathlib and io are half the cost.
        file = os.open(f"{self._prefix}/{path.lstrip('/')}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # In pieces: for one large read of a file in /proc/sys the kernel wants as large a buffer (ENOMEM).
            while left > 0 and (chunk := os.read(file, min(left, CHUNK_BYTES))):
                chunks.append(chunk)
                left -= len(chunk)
        finally:
            os.close(file)
        return b"".join(chunks)

    def contents(self, path: str, names: Iterable[str] | None = None, limit: int = 4096) -> dict[str, bytes | OSError]:
        """The first `limit` bytes of each file in a folder (or of those named), by name; an error in its place.

        For folders of hundreds of small files (a GID table): one descriptor of the folder makes each cost a few
        microseconds. Raises `OSError` when the folder itself cannot be read.
        """
        place = self.at(path)
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            by_name: dict[str, bytes | OSError] = {}
            every = os.listdir(folder) if names is None else names  # noqa: PTH208 - of a descriptor, not a path
            for name in every:
                try:
                    file = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
                    try:
                        by_name[name] = os.read(file, limit)
                    finally:
                        os.close(file)
                except OSError as error:
                    by_name[name] = error
            return by_name
        finally:
            os.close(folder)

    def text_or_empty(self, path: str) -> str:
        """A file's content, for what may be missing: "" where it is not there or may not be read."""
        try:
            return self.text(path)
        except OSError:
            return ""

    def names_or_none(self, path: str) -> list[str]:
        """The names in a folder, for what may be missing: none where it is not there or may not be listed."""
        try:
            return self.names(path)
        except OSError:
            return []

    def link_or_empty(self, path: str) -> str:
        """The target of a symbolic link; "" where there is none, or it may not be read."""
        try:
            return self.link(path)
        except OSError:
            return ""

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted. Raises `OSError`."""
        return sorted(os.listdir(self.at(path)))  # noqa: PTH208 - a list of names is what is wanted

    def link(self, path: str) -> str:
        """The target of a symbolic link. Raises `OSError`."""
        return os.readlink(self.at(path))  # noqa: PTH115 - the target is text, not a path here

    def exists(self, path: str) -> bool:
        return self.at(path).exists()

    def status(self, path: str) -> NodeStatus:
        """Raises `OSError`."""
        place = self.at(path)
        result = place.stat()
        return NodeStatus(
            mode=stat.S_IMODE(result.st_mode),
            user_id=result.st_uid,
            group_id=result.st_gid,
            readable=os.access(place, os.R_OK),
            writable=os.access(place, os.W_OK),
            size=result.st_size,
            device=result.st_dev,
            inode=result.st_ino,
        )

    def output(self, command: str, *arguments: str, seconds: float | None = None) -> bytes:
        """What a command of the system writes to its standard output, whatever its exit status.

        Raises `FileNotFoundError` when the system has no such command, `TimeoutError` after `seconds` (never more than
        `patience`, which is the default). The command stays in our process group, so that it ends with us when the
        doctor ends us.
        """
        patience = self.patience if seconds is None else min(seconds, self.patience)
        paths = [self.at(f"{folder}/{command}") for folder in COMMAND_FOLDERS]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise FileNotFoundError(f"no command {command}")
        try:
            return subprocess.run(
                [str(path), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": ":".join(COMMAND_FOLDERS), "LC_ALL": "C"},
                cwd=programs.ELSEWHERE,
                timeout=patience,
                check=False,
            ).stdout
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{command} gave no answer within {patience:.0f} s") from None


def attempt(source: str, function: Callable[[], T], *, must_exist: bool = False) -> Reading[T]:
    """`function`'s result as a reading; what it raises becomes the reason why there is none.

    A file that does not exist is `absent`, unless `must_exist`: every Linux has it, so its absence hides something.
    """
    try:
        return read(source, function())
    except FileNotFoundError as error:
        if must_exist:
            return missing(source, f"not there: {error.strerror or error} (is /proc or /sys mounted?)")
        return absent(source, "not on this machine")
    except PermissionError as error:
        return missing(source, f"permission denied ({error.strerror or error})", "denied")
    except TimeoutError as error:
        return missing(source, str(error), "timeout")
    except OSError as error:
        return missing(source, error.strerror or str(error))
    except Exception as error:  # a kernel or tool that answers in a form nobody foresaw
        return missing(source, f"unexpected content: {type(error).__name__}: {error}")


def of_proc(system: System, path: str, parse: Callable[[str], T]) -> Reading[T]:
    """What a file that every Linux has says."""
    return attempt(path, lambda: parse(system.text(path)), must_exist=True)


def of_sysfs(
    system: System, folder: str, empty: T, function: Callable[[], T], *, source: str | None = None
) -> Reading[T]:
    """What a folder of /sys tells; `empty` where the kernel has no such folder. Without /sys nothing is known."""
    source = source or folder
    if not system.exists("/".join(folder.split("/")[:3])):
        return missing(source, "/sys is not mounted here")
    return attempt(source, function, must_exist=True) if system.exists(folder) else read(source, empty)


def within(seconds: float, what: str, function: Callable[[], T]) -> T:
    """`function()`, which may never return: raises `TimeoutError` that names `what`."""
    until = time.monotonic() + seconds
    try:
        return threads.answer(function, lambda: until)
    except threads.NoAnswer:
        raise TimeoutError(f"{what} gave no answer within {seconds:.0f} s") from None
