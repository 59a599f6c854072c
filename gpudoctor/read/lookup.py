"""`Lookup`: what names resolve to, looked up beside everything else."""

import queue
import socket
import threading
import time
from collections.abc import Sequence

RESOLVERS = 16
"""Threads that look names up."""


class Lookup:
    """Names looked up beside everything else, by getaddrinfo, which knows no deadline: its threads are left alone."""

    def __init__(self, names: Sequence[str], seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._names: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[str, tuple[str, ...]]] = queue.SimpleQueue()
        wanted = dict.fromkeys(names)
        self._open = len(wanted)
        for name in wanted:
            self._names.put(name)
        for _ in range(min(RESOLVERS, self._open)):
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        try:
            while time.monotonic() < self._deadline:
                name = self._names.get_nowait()
                self._found.put((name, addresses_of(name)))
        except queue.Empty:
            pass

    def answers(self) -> dict[str, tuple[str, ...]]:
        """Name -> addresses, of the names that were answered before the deadline."""
        by_name: dict[str, tuple[str, ...]] = {}
        while len(by_name) < self._open:
            try:
                name, addresses = self._found.get(timeout=max(0.0, self._deadline - time.monotonic()))
            except queue.Empty:
                break
            by_name[name] = addresses
        return by_name


def addresses_of(name: str) -> tuple[str, ...]:
    """What a name resolves to, in getaddrinfo's order, each once; () when it does not."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):  # ValueError: a NUL in it
        return ()
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
