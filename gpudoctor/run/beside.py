"""Looks at the job in a thread of its own while the main thread waits for signals and for the command.

A look reads and writes files and starts programs, and each of these may stand in the kernel for ever: a report on a
mount whose server is gone, a rank that cannot be read. Signals are passed on, and the end is noticed, all the same.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpudoctor import threads

LOOK_SECONDS, MOST_SECONDS = 0.25, 0.5
"""From look to look, of a job that is young, and of one that is not."""
YOUNG_SECONDS = 10.0
STUCK_SECONDS = 30.0
"""For which a look that is under way is waited for at the end."""


class Beside:
    """Of one command. The thread lives on when it looks no more: the kernel ends children of ours with the thread that
    has started them."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._over, self._done = threading.Event(), threading.Event()
        self.failed: Exception | None = None
        """Why it looks no more."""
        self.is_threaded = True
        try:
            threads.start(threading.Thread(target=self._work, daemon=True, name="looks"))
        except RuntimeError:  # no thread may be started: the main thread looks
            self.is_threaded = False
            self._done.set()

    def look(self) -> None:
        """Once, where no thread does."""
        if not self.is_threaded:
            self._look()

    def end(self) -> bool:
        """Look no more. False: it stands in a look."""
        self._over.set()
        return self._done.wait(STUCK_SECONDS)

    def _work(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the main thread
        began = time.monotonic()
        try:
            while not self._over.wait(LOOK_SECONDS if time.monotonic() - began < YOUNG_SECONDS else MOST_SECONDS):
                self._look()
        except Exception as error:  # it costs the looks, and not the job
            self.failed = error
        self._done.set()
        threading.Event().wait()


def waits_for_files(task: Path) -> bool:
    """Whether a thread of ours (its folder in /proc) stands in the kernel at a file: in state D, or at FUSE, where who
    takes no signal sleeps."""
    try:
        state = (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        return state == "D" or (state == "S" and (task / "wchan").read_text().startswith(FUSE))
    except (OSError, ValueError, IndexError):
        return False


FUSE = ("request_wait_answer", "fuse_")


def own_task() -> Path:
    """Of the main thread."""
    return Path(f"/proc/self/task/{os.getpid()}")
