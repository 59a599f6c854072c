"""Ties a child process of the doctor to the doctor's life."""

import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_the_doctor() -> None:
    """Have the kernel kill this process when the doctor dies, even by SIGKILL (Linux; elsewhere a no-op)."""
    if sys.platform.startswith("linux"):
        import ctypes  # here, for a doctor that only starts such children has no use for it

        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        except (OSError, AttributeError):
            pass  # not vital: the doctor ends its children itself whenever it can
