"""The door of join mode: who connects waits here until it has proved that it knows the token, or has to make room.

Nobody can keep others out by waiting here. There is room for `MOST_WAITING`; whoever comes then is let in, and of the
source that has most waiting the oldest goes. An honest newcomer proves itself within milliseconds. Who has proved
itself is no longer here, and is never closed for another's sake. One thread serves them all, so that a flood costs
neither threads nor, beyond that room, descriptors.
"""

import contextlib
import errno
import ipaddress
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

from gpudoctor.fleet.join_channel import Admission, Channel, NotProved

HANDSHAKE_SECONDS = 5.0
MOST_WAITING = 64
AT_A_TIME = 32
"""Connections taken before those that wait are heard again."""
CHUNK_BYTES = 512
"""More than an answer has; what follows it in one packet is kept."""
TICK_SECONDS = 0.2
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

SILENT = f"it proved nothing for {HANDSHAKE_SECONDS:g} s"
MADE_ROOM = "it proved nothing, and was closed to make room for others"
LEFT = "it did not finish the handshake"

Proved = Callable[[Channel, socket.socket, str], bool]
"""Take over a connection that has proved itself, from this address; False when it is not wanted."""


class Door:
    """Serves a listener until told to stop. `proved` and `turned_away` (address, why) are called from its thread."""

    def __init__(
        self, listener: socket.socket, token: str, *, proved: Proved, turned_away: Callable[[str, str], None]
    ) -> None:
        self._listener = listener
        self._token = token
        self._proved = proved
        self._turned_away = turned_away
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[str, dict[socket.socket, _Guest]] = {}
        """By source, the oldest first."""

    def serve(self, go_on: Callable[[], bool]) -> None:
        """Until `go_on` says no, which is asked several times a second; then close the listener and who waits."""
        with self._listener, self._selector:
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)
            try:
                while go_on():
                    ready = self._selector.select(TICK_SECONDS)
                    for key, _ in ready:  # first those who may have proved themselves meanwhile
                        if isinstance(key.data, _Guest):
                            self._hear(key.data)
                    if any(key.data is None for key, _ in ready):
                        self._open()
                    self._give_up_late()
            finally:
                for caller in self._callers():
                    self._dismiss(caller)

    def _callers(self) -> "list[_Guest]":
        return [caller for callers in self._waiting.values() for caller in callers.values()]

    def _open(self) -> None:
        """Take who knocks."""
        for _ in range(AT_A_TIME):
            try:
                connection, (host, *_) = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:  # it went away before it was taken
                    continue
                if not self._make_room():
                    time.sleep(TICK_SECONDS / 4)  # the caller waits in the kernel's queue; do not spin meanwhile
                return
            while len(self._callers()) >= MOST_WAITING:
                self._make_room()
            self._greet(_Guest(connection, shown(host), Admission(self._token)))

    def _greet(self, caller: "_Guest") -> None:
        try:
            caller.connection.setblocking(False)
            caller.connection.send(caller.admission.greeting)  # it fits into any socket's buffer
            self._selector.register(caller.connection, selectors.EVENT_READ, caller)
        except OSError:
            caller.connection.close()
            self._turned_away(caller.host, LEFT)
            return
        self._waiting.setdefault(caller.source, {})[caller.connection] = caller

    def _hear(self, caller: "_Guest") -> None:
        """It has sent something, or left."""
        if caller.connection not in self._waiting.get(caller.source, ()):
            return  # it has just made room
        try:
            data = caller.connection.recv(CHUNK_BYTES)
            if not data:
                self._dismiss(caller, LEFT)
                return
            proof = caller.admission.take(data)
            if proof is None:
                return
            caller.connection.send(proof)
        except BlockingIOError:
            return
        except OSError:
            self._dismiss(caller, LEFT)
            return
        except NotProved as error:
            with contextlib.suppress(OSError):
                caller.connection.send(error.told)
            self._dismiss(caller, str(error))
            return
        self._forget(caller)
        caller.connection.setblocking(True)
        channel = caller.admission.channel(caller.connection)
        if not self._proved(channel, caller.connection, caller.host):
            caller.connection.close()

    def _make_room(self) -> bool:
        """Close the oldest of the source that has most; whether there was any."""
        if not self._waiting:
            return False
        most = max(self._waiting.values(), key=len)
        self._dismiss(next(iter(most.values())), MADE_ROOM)
        return True

    def _give_up_late(self) -> None:
        now = time.monotonic()
        for caller in self._callers():
            if caller.deadline <= now:
                self._dismiss(caller, SILENT)

    def _forget(self, caller: "_Guest") -> None:
        self._selector.unregister(caller.connection)
        callers = self._waiting[caller.source]
        del callers[caller.connection]
        if not callers:
            del self._waiting[caller.source]

    def _dismiss(self, caller: "_Guest", why: str = "") -> None:
        self._forget(caller)
        caller.connection.close()
        if why:
            self._turned_away(caller.host, why)


class _Guest:
    """A connection that has proved nothing yet."""

    def __init__(self, connection: socket.socket, host: str, admission: Admission) -> None:
        self.connection = connection
        self.host = host
        self.source = source(host)
        self.admission = admission
        self.deadline = time.monotonic() + HANDSHAKE_SECONDS


def shown(host: str) -> str:
    """An address as accept(2) gives it, without a scope; an IPv4 address that came through IPv6 as IPv4."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


def source(host: str) -> str:
    """Whom an address stands for: of IPv6, one machine has a whole /64."""
    address = ipaddress.ip_address(host)
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address), 64), strict=False))


class Doorkeeper:
    """Counts who was turned away and why, and says so live, in few lines however many come. For any thread."""

    KEPT = 20
    """Pairs of address and reason; the rest is counted together."""
    EVERY_SECONDS = 5.0
    MOST_LINES = 60
    NAMED = 3

    def __init__(self, say: Callable[[str], None] | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        """ "10.0.0.7: wrong token" -> how often."""
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._new: Counter[str] = Counter()
        self._said_at = float("-inf")
        self._lines = 0

    def turned_away(self, host: str, why: str) -> None:
        with self._lock:
            what = f"{host}: {why}"
            if what not in self.counts and len(self.counts) >= self.KEPT:
                what = "other addresses"
            self.counts[what] += 1
            self._new[what] += 1
        self.speak()

    def speak(self) -> None:
        """Say what is new, unless something was said within the last seconds. To be called now and then besides."""
        with self._lock:
            now = self._clock()
            if not self._new or now - self._said_at < self.EVERY_SECONDS or self._lines >= self.MOST_LINES:
                return
            text, self._new = self.summary(self._new), Counter()
            self._said_at, self._lines = now, self._lines + 1
        if self._say is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                self._say(text)

    @classmethod
    def summary(cls, counts: "Counter[str]") -> str:
        """ "turned away: 10.0.0.7: wrong token (2 x); and 5 more"; empty where nobody was."""
        if not counts:
            return ""
        named = counts.most_common(cls.NAMED)
        rest = sum(counts.values()) - sum(count for _, count in named)
        words = [f"{what} ({count} x)" for what, count in named]
        return "turned away: " + "; ".join([*words, *([f"and {rest} more"] if rest else [])])
