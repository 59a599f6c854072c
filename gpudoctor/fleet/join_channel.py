"""The connection of join mode: both sides prove that they know the token, then every line carries a proof.

What goes over the wire, as text:

    head    gpudoctor-join 1 NONCE                      (a greeting, the head's random number)
    joiner  NONCE PROOF                                 (its own random number; HMAC of both under the token)
    head    PROOF                                       (or "refused", where the joiner's is wrong)
    both    MAC KIND PAYLOAD                            (HMAC under a key of this session and direction)

HMAC is SHA-256 (RFC 2104). The token itself never goes over the wire. The lines are protected against change, replay,
reordering and insertion by anybody without the token, not against reading: they hold what `gpudoctor capture` would.
"""

import contextlib
import hashlib
import hmac
import re
import secrets
import socket
import threading
import time
from collections import deque
from typing import Literal

from gpudoctor.fleet.lines import ArrivingLines, TooLong
from gpudoctor.lazy import lazy_re

VERSION = 1
"""Number of this handshake; it stands in the greeting."""
GREETING = lazy_re(rb"gpudoctor-join (\d{1,6}) ([0-9a-f]{64})")
ANSWER = lazy_re(rb"([0-9a-f]{64}) ([0-9a-f]{64})")
PROOF = lazy_re(rb"[0-9a-f]{64}")
REFUSED = b"refused"
"""The head's last word to who does not know the token; who is closed to make room for others hears nothing."""
LINE = lazy_re(rb"([0-9a-f]{64}) ([CO]) (.*)", re.DOTALL)
HANDSHAKE_BYTES = 256
"""No line of the handshake is longer; who sends more is not one of us."""
CHUNK_BYTES = 1 << 16

Kind = Literal["C", "O"]
"""C: control, between join mode's two ends; O: an order or a reply, for fleet and agent."""


class NotProved(Exception):
    """The handshake failed. `stranger`: what came was no answer of ours; else the token is another one."""

    def __init__(self, detail: str, *, stranger: bool, told: bytes = b"") -> None:
        """`told`: what the other side is sent before the connection is closed."""
        super().__init__(detail)
        self.stranger = stranger
        self.told = told


class Closed(NotProved):
    """The connection ended within the handshake, without a word: the head made room for others, or it is no head."""


class OtherVersion(Exception):
    """The head speaks another version of the handshake."""


class Forged(Exception):
    """A line that the other end of this session did not send."""


def _mac(key: bytes, *parts: bytes) -> bytes:
    """Under `key`; each part is led by its length, so that no two lists of parts give the same text."""
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(key, text, hashlib.sha256).hexdigest().encode()


class Channel:
    """An authenticated connection. `send` may be called from any thread, `receive` from one."""

    def __init__(
        self, connection: socket.socket, key: bytes, *, is_head: bool, read: ArrivingLines, ready: list[bytes]
    ) -> None:
        self._connection = connection
        down, up = _mac(key, b"head to joiner"), _mac(key, b"joiner to head")
        self._send_key, self._receive_key = (down, up) if is_head else (up, down)
        self._sent = self._received = 0
        self._sending = threading.Lock()
        self._lines = read
        self._ready = deque(ready)

    def send(self, kind: Kind, payload: bytes) -> None:
        """Send one line (`payload` without a line end). Raises `OSError`."""
        word = kind.encode()
        with self._sending:
            proof = _mac(self._send_key, self._sent.to_bytes(8, "big"), word, payload)
            self._sent += 1
            self._connection.sendall(proof + b" " + word + b" " + payload + b"\n")

    def receive(self) -> tuple[Kind, bytes] | None:
        """The next line; None at the end. Raises `Forged`, `TooLong` and `OSError`."""
        while not self._ready:
            chunk = self._connection.recv(CHUNK_BYTES)
            if not chunk:
                return None
            self._ready.extend(self._lines.feed(chunk))
        line = self._ready.popleft()
        match = LINE.fullmatch(line)
        wanted = b""
        if match is not None:
            wanted = _mac(self._receive_key, self._received.to_bytes(8, "big"), match[2], match[3])
        if match is None or not hmac.compare_digest(match[1], wanted):
            raise Forged("a line arrived that the other end of this connection did not send")
        self._received += 1
        return ("O" if match[2] == b"O" else "C"), match[3]

    def close(self) -> None:
        """End the connection; a thread that waits in `receive` gets its end."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Admission:
    """The head's part of the handshake, without a socket: send `greeting`, then `take` what comes."""

    def __init__(self, token: str) -> None:
        self._secret = token.encode()
        self._mine = secrets.token_hex(32).encode()
        self._theirs = self._rest = b""
        self.greeting = b"gpudoctor-join %d %b\n" % (VERSION, self._mine)

    def take(self, data: bytes) -> bytes | None:
        """What is to be sent once the joiner has proved itself; None while more is to come. Raises `NotProved`."""
        self._rest += data
        line, end, rest = self._rest.partition(b"\n")
        if len(line) > HANDSHAKE_BYTES:
            raise NotProved("it sent too much", stranger=True)
        if not end:
            return None
        answer = ANSWER.fullmatch(line)
        if answer is None:
            raise NotProved("what it sent is no answer of gpudoctor", stranger=True)
        theirs, proof = answer[1], answer[2]
        if not hmac.compare_digest(proof, _mac(self._secret, b"joiner", self._mine, theirs)):
            raise NotProved("wrong token", stranger=False, told=REFUSED + b"\n")
        self._theirs, self._rest = theirs, rest
        return _mac(self._secret, b"head", self._mine, theirs) + b"\n"

    def channel(self, connection: socket.socket) -> "Channel":
        """The channel of a joiner that has proved itself."""
        return _open(connection, self._rest, self._secret, self._mine, self._theirs, is_head=True)


def introduce(connection: socket.socket, token: str, *, seconds: float) -> Channel:
    """The joiner's part. Raises `NotProved` (or its `Closed`), `OtherVersion` and `OSError`.

    `TimeoutError` after `seconds` in all.
    """
    deadline = time.monotonic() + seconds
    reader = _Handshake(connection, deadline)
    first = reader.line()
    if not first and not reader.rest:
        raise Closed("it closes the connection without a word", stranger=True)
    greeting = GREETING.fullmatch(first)
    if greeting is None:
        raise NotProved("something else than gpudoctor answers there", stranger=True)
    if int(greeting[1]) != VERSION:
        raise OtherVersion(f"the head speaks version {int(greeting[1])} of join mode, this gpudoctor version {VERSION}")
    secret, theirs, mine = token.encode(), greeting[2], secrets.token_hex(32).encode()
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # which `line` finds as well
        connection.sendall(mine + b" " + _mac(secret, b"joiner", theirs, mine) + b"\n")
    answer = reader.line()
    if not answer:
        raise Closed("it closes the connection within the handshake", stranger=True)
    if answer == REFUSED:
        raise NotProved("the head refuses the token", stranger=False)
    if PROOF.fullmatch(answer) is None or not hmac.compare_digest(answer, _mac(secret, b"head", theirs, mine)):
        raise NotProved("the head does not know the token", stranger=True)
    return _open(connection, reader.rest, secret, theirs, mine, is_head=False)


def _open(
    connection: socket.socket, rest: bytes, secret: bytes, head: bytes, joiner: bytes, *, is_head: bool
) -> Channel:
    key = _mac(secret, b"session", head, joiner)
    lines = ArrivingLines()
    return Channel(connection, key, is_head=is_head, read=lines, ready=lines.feed(rest))


class _Handshake:
    """Reads short lines until a deadline, however slowly they come."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self.rest = b""

    def line(self) -> bytes:
        """The next line without its end; empty at the end of the connection. Raises `NotProved` and `OSError`."""
        while b"\n" not in self.rest:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the handshake took too long")
            self._connection.settimeout(left)
            chunk = b""
            with contextlib.suppress(ConnectionResetError):
                chunk = self._connection.recv(HANDSHAKE_BYTES)
            if not chunk:
                return b""
            self.rest += chunk
            if len(self.rest) > HANDSHAKE_BYTES and b"\n" not in self.rest[:HANDSHAKE_BYTES]:
                raise NotProved("it sent too much", stranger=True)
        line, _, self.rest = self.rest.partition(b"\n")
        self._connection.settimeout(None)
        return line


__all__ = ["Admission", "Channel", "Closed", "Forged", "NotProved", "OtherVersion", "TooLong", "introduce"]
