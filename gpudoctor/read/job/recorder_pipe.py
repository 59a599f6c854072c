"""Asking a process for its flight recorder, through the FIFO that TORCH_NCCL_DEBUG_INFO_PIPE_FILE has made.

A thread of ProcessGroupNCCL looks into the FIFO once a second; any byte in it makes the process write its dump to the
file of its settings, where it stays, as the user has set it up.
"""

import os
import stat
from collections.abc import Mapping

from gpudoctor.read.job import inside
from gpudoctor.read.job.recorder_files import LONGEST_PATH

SETTING = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


class NotAsked(Exception):
    """The text says why."""


def name(rank: int, environment: Mapping[str, str], stem: str = "") -> str:
    """The FIFO of a rank, as its process names it; empty where it has none. `stem`: where arm() says which."""
    stem = stem or environment.get(SETTING, "")
    return f"{stem}{rank}.pipe"[:LONGEST_PATH] if stem else ""


def ask(pid: int, fifo: str) -> None:
    """Put a byte into a process's FIFO. Raises `NotAsked`; never waits.

    It must belong to the process's user: its name is the process's word, and root could write into any.
    """
    try:
        with inside.found(pid, fifo, link=False) as place:
            status = os.fstat(place)
            if not stat.S_ISFIFO(status.st_mode):
                raise NotAsked(f"{fifo} is no FIFO")
            if status.st_uid != inside.rights(pid).user:
                raise NotAsked(f"{fifo} belongs to another user")
            descriptor = inside.reopened(place, os.O_WRONLY)
            try:
                os.write(descriptor, b"1")
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        raise NotAsked(f"{fifo} is not there: the process has no NCCL communicator yet, or no longer") from None
    except OSError as error:  # ENXIO: a FIFO that nobody has open
        raise NotAsked(f"{fifo}: {error.strerror or error}") from None
