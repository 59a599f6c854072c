"""Threads that are begun, or are not, within bounds.

A thread that has no memory left to begin with dies before it can say so, and `Thread.start` waits for its word for ever
(CPython to this day): `hang` under a `ulimit -v` then had no answer within 20 s, and nobody could say why.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
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


class NoAnswer(TimeoutError):
    """Of what was asked in `answer`, and of nothing that this raised itself."""


def answer(function: Callable[[], T], until: Callable[[], float], name: str | None = None) -> T:
    """`function()`, which may never return (a dead mount, DNS), in a thread: nothing else gets out of a read of a dead
    file system, or lets Ctrl-C in. `until`: on time.monotonic's clock; it may move on meanwhile.

    The thread that still hangs is a daemon's and ends with the process. Raises `NoAnswer`, `RuntimeError` where no
    thread can be started, and what `function` raises.
    """
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        done.set()

    start(threading.Thread(target=work, daemon=True, name=name))
    while not done.wait(max(0.0, until() - time.monotonic())):
        if time.monotonic() >= until():
            raise NoAnswer
    if errors:
        raise errors[0]
    return results[0]


__all__ = ["NoAnswer", "answer", "start"]
