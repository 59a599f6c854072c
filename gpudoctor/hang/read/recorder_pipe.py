"""Asking a process for its flight recorder, through the FIFO that TORCH_NCCL_DEBUG_INFO_PIPE_FILE has made.

A thread of ProcessGroupNCCL looks into the FIFO once a second; any byte in it makes the process write its dump to the
file of its settings, where it stays, as the user has set it up.
"""

import os
import stat
from collections.abc import Mapping

from gpudoctor.hang.read.recorder_files import LONGEST_PATH, seen_from_here

SETTING = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


class NotAsked(Exception):
    """The text says why."""


def name(rank: int, environment: Mapping[str, str], stem: str = "") -> str:
    """The FIFO of a rank, as its process names it; empty where it has none. `stem`: where arm() says which."""
    stem = stem or environment.get(SETTING, "")
    return f"{stem}{rank}.pipe"[:LONGEST_PATH] if stem else ""


def ask(pid: int, fifo: str) -> None:
    """Put a byte into a process's FIFO. Raises `NotAsked`; never waits."""
    path = seen_from_here(pid, fifo)
    try:
        status = os.lstat(path)
        if not stat.S_ISFIFO(status.st_mode):
            raise NotAsked(f"{fifo} is no FIFO")
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotAsked(f"{fifo} is not there: the process has no NCCL communicator yet, or no longer") from None
    except OSError as error:  # ENXIO: a FIFO that nobody has open
        raise NotAsked(f"{fifo}: {error.strerror or error}") from None
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise NotAsked(f"{fifo} is no FIFO")
        os.write(descriptor, b"1")
    except OSError as error:
        raise NotAsked(f"{fifo}: {error.strerror or error}") from None
    finally:
        os.close(descriptor)
