"""Runs a module under the doctor's eye: `PYTHON .../workers/under_doctor.py -m MODULE ARGUMENTS...` (torchrun).

Like `python -m`, but the process ends when the doctor does: the kernel kills it when the doctor's thread that
started it dies, and it leaves when nobody can read its standard output any more. The ranks that it starts set the
same signal for themselves (__main__.py), so they follow. Nothing is imported before both are in place.
"""

import ctypes
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 5.0


def end_with_the_doctor():
    # type: () -> None
    """Have the kernel kill this process when the doctor dies, even by SIGKILL (Linux; elsewhere a no-op)."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        except (OSError, AttributeError):
            pass  # not vital: the doctor ends its children itself whenever it can


def end_with_the_listener():
    # type: () -> None
    """End when the reader of our standard output is gone: the signal above may have been set too late for it."""
    if not sys.platform.startswith("linux"):
        return
    import select  # here, for Windows knows no select.poll

    closed = select.poll()
    closed.register(1, 0)  # POLLERR, which needs no asking: the pipe has no reader left

    def watch():
        # type: () -> None
        closed.poll()
        os.kill(os.getpid(), signal.SIGTERM)  # torchrun ends its ranks on it
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    watcher = threading.Thread(target=watch)
    watcher.daemon = True
    try:
        watcher.start()
    except RuntimeError:
        pass  # no more threads (pids.max); not vital either


def understood(arguments, version):
    # type: (list[str], str) -> list[str]
    """torchrun's arguments without what this torch cannot take: before 2.3 it makes a folder in --log_dir."""
    numbers = [int(part) if part.isdigit() else 0 for part in version.split(".")[:2]]
    if numbers >= [2, 3]:
        return arguments
    return [word for word in arguments if word != "--log_dir=" + os.devnull]


def main():
    # type: () -> None
    end_with_the_doctor()
    end_with_the_listener()
    if len(sys.argv) < 3 or sys.argv[1] != "-m":
        sys.exit("under_doctor.py: wants -m MODULE ARGUMENTS...")
    folder = os.path.dirname(os.path.abspath(__file__))
    # This folder must not shadow anything that the module imports (it is absent under `python -P`).
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    if module == "torch.distributed.run":
        from torch.version import __version__ as version  # torchrun imports all of torch in any case

        sys.argv = understood(sys.argv, version)
    import runpy

    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
