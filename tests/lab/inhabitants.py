"""Processes in network namespaces: who is there, and an end to them."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
PATIENCE = 120.0
"""Seconds in which killed processes must be gone."""


def processes(*namespaces: Path) -> dict[int, str]:
    """The command lines, by process id, of what runs in namespaces given by their files in /run/netns."""
    wanted = set()
    for namespace in namespaces:
        with contextlib.suppress(FileNotFoundError):
            wanted.add(_identity(namespace))
    found = {}
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if _identity(folder / "ns/net") in wanted and not _is_zombie(folder):
                found[int(folder.name)] = _command_line(folder)
    return found


def signal_all(number: signal.Signals, *namespaces: Path) -> None:
    """A signal to each process there."""
    for pid in processes(*namespaces):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill(namespaces: Iterable[Path]) -> None:
    """SIGKILL until nobody is left: a process may have started another in between."""
    places = tuple(namespaces)
    end = time.monotonic() + PATIENCE
    while there := processes(*places) if places else {}:
        if time.monotonic() > end:
            raise RuntimeError(f"these do not end: {there}")
        signal_all(signal.SIGKILL, *places)
        time.sleep(0.01)


def _identity(namespace: Path) -> tuple[int, int]:
    status = namespace.stat()
    return status.st_dev, status.st_ino


def _is_zombie(folder: Path) -> bool:
    """It has ended, and only its parent has not asked yet."""
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _command_line(folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode(errors="replace")
