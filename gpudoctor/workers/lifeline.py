"""Ties a process of the training interpreter to the doctor's life. Imported before anything that may hang."""

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_the_parent():
    # type: () -> None
    """Have the kernel kill this process when its parent dies, even by SIGKILL (Linux; elsewhere a no-op)."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        except (OSError, AttributeError):
            pass  # not vital: the doctor ends its children itself whenever it can


def end_with_the_listener(reply, seconds=0.0):
    # type: (int, float) -> None
    """End when nobody can read `reply` any more: the parent may be a wrapper script, which outlives the doctor.

    With `seconds`, SIGTERM comes that long before the end.
    """
    if not sys.platform.startswith("linux"):
        return
    import select  # here, for Windows knows no select.poll
    import time

    closed = select.poll()
    closed.register(reply, 0)  # POLLERR, which needs no asking: the pipe has no reader left

    def watch():
        # type: () -> None
        closed.poll()
        if seconds:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(seconds)
        os._exit(1)

    watcher = threading.Thread(target=watch)
    watcher.daemon = True
    try:
        watcher.start()
    except RuntimeError:
        pass  # no more threads (pids.max); not vital either
