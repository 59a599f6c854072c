"""Threads that are begun, or are not, within bounds.

A thread that has no memory left to begin with dies before it can say so, and `Thread.start` waits for its word for ever
(CPython to this day): `hang` under a `ulimit -v` then had no answer within 20 s, and nobody could say why.
"""

import threading

SECONDS = 5.0
"""For a thread to begin, on a crowded machine."""


class _Begun(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        if not super().wait(SECONDS if timeout is None else timeout):
            raise RuntimeError("can't start new thread")  # as Python says where it notices at once
        return True


def start(thread: threading.Thread) -> None:
    """Raises `RuntimeError` where it cannot be started."""
    thread._started = _Begun()  # type: ignore[attr-defined]
    thread.start()


__all__ = ["start"]
