"""Ends the doctor as its command has ended, where the doctor itself stands in the kernel and will not come back.

The folder of a report may lie on a mount whose server goes away while the job runs (a home folder on NFS). The relay
is a process of its own, so the job goes on and ends; who waits for the doctor (a batch script, a shell) would then wait
for that server.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpudoctor import threads
from gpudoctor.run.beside import STUCK_SECONDS, own_task, waits_for_files
from gpudoctor.run.start import OWN_FAILURE, end_as

LOOK_SECONDS = 1.0
NO_ANSWER = "a file system does not answer, perhaps that of the report: no more is said of this run"


def watch(pid: int, known: Callable[[], int | None], say: Callable[[str], None]) -> None:
    """From the start of the command `pid` on; `known`: its status, where the main thread has waited for it. Where no
    thread may be started nobody watches."""
    try:
        threads.start(threading.Thread(target=_watch, args=(pid, known, say, own_task()), daemon=True))
    except RuntimeError:
        pass


def _watch(pid: int, known: Callable[[], int | None], say: Callable[[str], None], own: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the main thread
    status = None
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if ended is not None:
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    except OSError:  # the main thread has just waited for it
        pass
    last_moved = time.monotonic()
    while time.monotonic() - last_moved < STUCK_SECONDS:
        time.sleep(LOOK_SECONDS)
        if not waits_for_files(own):
            last_moved = time.monotonic()
    if status is None:
        status = known()
    say(NO_ANSWER)
    end_as(OWN_FAILURE if status is None else status)
