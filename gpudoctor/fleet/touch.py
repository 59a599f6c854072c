"""Connects to many listeners at once, and says what became of each (`Touched`)."""

import errno
import hmac
import os
import secrets
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Literal

from gpudoctor.fleet.messages import Target, Touched
from gpudoctor.fleet.probe import ANSWER_BYTES, MAXIMUM_PAYLOAD, answer, header

Outcome = Literal["connected", "truncated", "refused", "no answer", "unreachable", "wrong listener", "failed"]

MOST_AT_ONCE = 256
"""Connections that are open at the same time; a process may have 1,024 descriptors by default."""
UNREACHABLE = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
)
CHUNK = 1 << 16


class _Attempt:
    """One connection on its way: connecting, sending, waiting for proof and payload."""

    def __init__(self, target: Target, secret: str, payload: int, seconds: float) -> None:
        self.target = target
        self.touched: Touched | None = None
        self.connection: socket.socket | None = None
        self._started = time.monotonic()
        self.deadline = self._started + seconds
        self._connected = 0.0
        nonce = secrets.token_hex(16)
        # The payload follows the proof: where large packets are lost, the small ones before them must not wait in one.
        self._to_send = memoryview(header(secret, nonce, payload))
        self._expected = answer(secret, nonce)
        self._payload = payload
        self._proof = bytearray()
        self._received = 0

    @property
    def interest(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._to_send or not self._connected else 0)

    def start(self) -> None:
        """Begin to connect."""
        if not 1 <= self.target.port <= 65535:  # getaddrinfo would take 65558 for 22
            self._over("failed", f"{self.target.port} is no port")
            return
        try:
            family, _, _, _, address = socket.getaddrinfo(
                self.target.address, self.target.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            self.connection = socket.socket(family, socket.SOCK_STREAM)
            self.connection.setblocking(False)
            code = self.connection.connect_ex(address)
        except (OSError, UnicodeError) as error:  # no address, or no descriptors left
            self._over("failed", str(getattr(error, "strerror", None) or error))
            return
        if code not in (0, errno.EINPROGRESS):
            self._failed(code)

    def go_on(self, mask: int) -> None:
        """Something is ready."""
        assert self.connection is not None
        try:
            if not self._connected:
                code = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._failed(code)
                    return
                self.connection.getpeername()  # raises when a mere wake-up is taken for success
                self._connected = time.monotonic()
                if self.target.purpose == "knock":
                    self._over("connected", "")
                    return
            if mask & selectors.EVENT_WRITE and self._to_send:
                self._to_send = self._to_send[self.connection.send(self._to_send[:CHUNK]) :]
            if mask & selectors.EVENT_READ:
                self._take(self.connection.recv(CHUNK))
        except BlockingIOError:
            pass
        except OSError as error:
            self._failed(error.errno or 0)

    def _take(self, data: bytes) -> None:
        if not data:
            self._closed("closed the connection")
            return
        missing = ANSWER_BYTES - len(self._proof)
        self._proof += data[:missing]
        if len(self._proof) == ANSWER_BYTES and not hmac.compare_digest(bytes(self._proof), self._expected):
            self._over("wrong listener", "somebody else answers there")
            return
        if missing and len(self._proof) == ANSWER_BYTES:
            self._to_send = memoryview(bytes(self._payload))
        self._received += len(data[missing:])
        if len(self._proof) == ANSWER_BYTES and self._received >= self._payload:
            self._over("connected", "")

    def _closed(self, how: str) -> None:
        if len(self._proof) < ANSWER_BYTES:
            self._over("wrong listener", f"somebody else listens there: it {how} without an answer")
        else:
            self._over("failed", f"it {how} after {self._received} of {self._payload} bytes")

    def _failed(self, code: int) -> None:
        if self._connected:
            self._closed(f"ended the connection ({os.strerror(code)})")
        elif code == errno.ECONNREFUSED:
            self._over("refused", "")
        elif code == errno.ETIMEDOUT:
            self._over("no answer", "")
        elif code in UNREACHABLE:
            self._over("unreachable", os.strerror(code))
        elif code in (errno.EPERM, errno.EACCES):
            self._over("failed", "a packet filter of the connecting node itself forbids it")
        else:
            self._over("failed", os.strerror(code))

    def give_up(self) -> None:
        """The time is over."""
        seconds = time.monotonic() - self._started
        if not self._connected:
            self._over("no answer", f"within {seconds:.1f} s")
        elif len(self._proof) < ANSWER_BYTES:
            self._over("wrong listener", f"it accepts connections, and did not answer within {seconds:.1f} s")
        else:
            self._over("truncated", f"{self._received} of {self._payload} bytes came back within {seconds:.1f} s")

    def _over(self, outcome: Outcome, detail: str) -> None:
        took = ((self._connected or time.monotonic()) - self._started) * 1000
        self.touched = Touched(self.target, outcome, detail, round(took, 3))


def touch(targets: Sequence[Target], secret: str, *, timeout: float, payload_bytes: int) -> tuple[Touched, ...]:
    """Try every target, each for `timeout` seconds, at most `MOST_AT_ONCE` at the same time; in their order."""
    payload = max(0, min(payload_bytes, MAXIMUM_PAYLOAD))
    waiting = list(reversed(list(enumerate(targets))))
    by_index: dict[int, Touched] = {}
    running: dict[int, _Attempt] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < MOST_AT_ONCE:
                    index, target = waiting.pop()
                    attempt = running[index] = _Attempt(target, secret, payload, timeout)
                    attempt.start()
                    if attempt.touched is None and attempt.connection is not None:
                        selector.register(attempt.connection, attempt.interest, attempt)
                left = min((attempt.deadline for attempt in running.values()), default=0.0) - time.monotonic()
                ready = selector.select(max(0.0, left)) if selector.get_map() else []
                for key, mask in ready:
                    key.data.go_on(mask)
                    if key.data.touched is None:
                        selector.modify(key.fileobj, key.data.interest, key.data)
                now = time.monotonic()
                for index, attempt in list(running.items()):
                    if attempt.touched is None and attempt.deadline <= now:
                        attempt.give_up()
                    if attempt.touched is not None:
                        by_index[index] = attempt.touched
                        del running[index]
                        _close(attempt, selector)
        finally:
            for attempt in running.values():
                _close(attempt, selector)
    return tuple(by_index[index] for index in sorted(by_index))


def _close(attempt: _Attempt, selector: selectors.BaseSelector) -> None:
    if attempt.connection is None:
        return
    if attempt.connection.fileno() in selector.get_map():
        selector.unregister(attempt.connection)
    attempt.connection.close()
