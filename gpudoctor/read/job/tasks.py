"""Work that may never come back, in daemon threads with a deadline: a reader that hangs costs its own answer only."""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from gpudoctor import threads

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

THREADS = 8
"""At once for the processes of a node: each waits for the kernel more than it computes."""
MOST_THREADS = 64


class Task(Generic[T]):
    """One function, begun now."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._done = threading.Event()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._function = function
        threads.start(threading.Thread(target=self._work, daemon=True))

    def _work(self) -> None:
        try:
            self._results.append(self._function())
        except BaseException as error:
            self._error = error
        self._done.set()

    def result(self, deadline: float) -> T:
        """Its result; raises what it raised, and `TimeoutError` after `deadline` (of time.monotonic)."""
        if not self._done.wait(max(0.0, deadline - time.monotonic())):
            raise TimeoutError("no answer in time")
        if self._error is not None:
            raise self._error
        return self._results[0]


def each(keys: Iterable[K], function: Callable[[K], T], deadline: float) -> tuple[dict[K, T], dict[K, str]]:
    """`function` of every key, several at once: what came of it before the deadline, and why the others have none.

    A call that does not return keeps one thread; another takes its place as long as there are few of them.
    """
    wanted = list(dict.fromkeys(keys))
    waiting: queue.SimpleQueue[K] = queue.SimpleQueue()
    for key in wanted:
        waiting.put(key)
    lock = threading.Lock()
    done: dict[K, T] = {}
    failed: dict[K, str] = {}
    changed = threading.Event()

    def work() -> None:
        while True:
            try:
                key = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                result = function(key)
            except Exception as error:
                with lock:
                    failed[key] = str(getattr(error, "strerror", None) or error or type(error).__name__)
            else:
                with lock:
                    done[key] = result
            changed.set()

    started = 0
    last = time.monotonic()
    while True:
        with lock:
            complete = len(done) + len(failed)
        if complete >= len(wanted):
            break
        now = time.monotonic()
        if now >= deadline:
            break
        stalled = now - last > 0.3 and not waiting.empty()
        if started < min(THREADS, len(wanted)) or (stalled and started < MOST_THREADS):
            threads.start(threading.Thread(target=work, daemon=True))
            started += 1
            last = now
            continue
        if changed.wait(min(0.1, max(0.0, deadline - now))):
            changed.clear()
            last = time.monotonic()
    with lock:
        results, reasons = dict(done), dict(failed)
    for key in wanted:
        if key not in results and key not in reasons:
            reasons[key] = "no answer in time"
    return results, reasons
