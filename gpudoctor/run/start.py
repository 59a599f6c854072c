"""Starts the user's own command as a shell would, and ends as it has ended.

It is the one process of ours that starts where the user stands, with all of the environment, found on the user's own
PATH, whatever stands on it: it is the line that was typed. It has the signal mask and the handlers that we were started
with, and every descriptor that we were given (PMI_FD of srun, a job server of make).
"""

import contextlib
import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from gpudoctor import programs
from gpudoctor.run.channels import Outlet

OWN_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
"""As env, timeout and nice have them."""
SHELL = "/bin/sh"
PYTHON_IGNORES = ("SIGPIPE", "SIGXFSZ")
"""Whoever runs Python runs programs that ignore these."""


class CannotStart(Exception):
    """Why, in one line, and the status to end with."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def start(
    words: Sequence[str],
    channels: Sequence[Outlet],
    environment: Mapping[str, str],
    mask: Iterable[int],
) -> int:
    """The command's process. Raises `CannotStart`.

    `mask`: the signals that were blocked when we were started; whatever we block since is ours alone.
    """
    actions = [
        (os.POSIX_SPAWN_DUP2, channel.writing, number)
        for channel in channels
        if channel.writing >= 0
        for number in channel.outputs
    ]
    defaults = [getattr(signal, name) for name in PYTHON_IGNORES]

    def spawned(program: str, arguments: tuple[str, ...]) -> int:
        return os.posix_spawnp(
            program, arguments, environment, file_actions=actions, setsigmask=list(mask), setsigdef=defaults
        )

    try:
        try:
            return spawned(words[0], tuple(words))
        except OSError as error:
            path = programs.as_typed(words[0])
            if error.errno != errno.ENOEXEC or path is None:
                raise
            return spawned(SHELL, (SHELL, path, *words[1:]))  # a script without its first line, as a shell takes it
    except (OSError, ValueError) as error:
        raise _cannot_start(words[0], error) from None


def _cannot_start(program: str, error: OSError | ValueError) -> CannotStart:
    if not program:
        return CannotStart("'': not found", NOT_FOUND)
    if not isinstance(error, OSError):  # a NUL
        return CannotStart(f"{program}: {error}", OWN_FAILURE)
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return CannotStart(f"{program}: no process can be started: {error.strerror}", OWN_FAILURE)
    if error.errno == errno.ENOENT:
        path = programs.as_typed(program)
        if path is None:
            return CannotStart(f"{program}: not found", NOT_FOUND)
        return CannotStart(f"{path}: its interpreter, which its first line names, is not there", NOT_EXECUTABLE)
    return CannotStart(f"{program}: cannot be executed: {error.strerror}", NOT_EXECUTABLE)


def end_as(status: int) -> NoReturn:
    """End as the command has ended: with its exit status, or by the signal (negative) that ended it."""
    if status >= 0:
        os._exit(status)
    _leave_no_core()
    number = -status
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    signal.sigtimedwait([], 1.0)
    os._exit(128 + number)  # a signal that does not end us: then none has ended the command


def _leave_no_core() -> None:
    """The command has left its own. A limit of 0 would not do where cores go to a program (core_pattern)."""
    import ctypes

    pr_set_dumpable = 4  # <linux/prctl.h>
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0)
