"""Runs one worker in the training interpreter: `PYTHON .../gpudoctor/workers NAME ARGUMENTS...`.

Workers are modules of this folder with `main(say, arguments)`, written for Python 3.8 with the standard library
and torch only. `say` sends a dict to the doctor as one marked JSON line; whatever else the process prints goes to
standard error, so that a chatty sitecustomize or library cannot garble the reply.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import threading

MARK = b"@gpudoctor "
PR_SET_PDEATHSIG = 1


def end_with_the_doctor():
    # type: () -> None
    """Have the kernel kill this process when the doctor dies, even by SIGKILL (Linux; elsewhere a no-op)."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        except (OSError, AttributeError):
            pass  # not vital: the doctor ends its children itself whenever it can


def end_with_the_listener(reply):
    # type: (int) -> None
    """End when nobody can read our reply any more: our parent may be a wrapper script, which outlives the doctor."""
    if not sys.platform.startswith("linux"):
        return
    import select  # here, for Windows knows no select.poll

    closed = select.poll()
    closed.register(reply, 0)  # POLLERR, which needs no asking: the pipe has no reader left

    def watch():
        # type: () -> None
        closed.poll()
        os._exit(1)

    watcher = threading.Thread(target=watch)
    watcher.daemon = True
    try:
        watcher.start()
    except RuntimeError:
        pass  # no more threads (pids.max); not vital either


def main():
    # type: () -> None
    end_with_the_doctor()
    reply = os.dup(1)
    os.dup2(2, 1)
    end_with_the_listener(reply)

    def say(message):
        # type: (dict[str, object]) -> None
        line = MARK + json.dumps(message).encode("utf-8") + b"\n"
        while line:
            line = line[os.write(reply, line) :]

    name, arguments = sys.argv[1], sys.argv[2:]
    # Before anything that an interpreter too old for us stumbles over.
    say({"python": sys.version.split()[0], "executable": sys.executable})
    worker = importlib.import_module(name)
    sys.path.pop(0)  # this folder, which must not shadow anything that the worker imports
    worker.main(say, arguments)
    say({"done": True})
    sys.stderr.flush()
    os._exit(0)  # torch's and CUDA's exit handlers can take long or hang, and nothing here needs them


main()
