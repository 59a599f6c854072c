"""Listening sockets that answer probes (`probe`), served by one thread, bounded in number, bytes and time."""

import contextlib
import errno
import os
import selectors
import socket
import threading
import time

from gpudoctor.fleet.probe import MAXIMUM_HEADER, RefusedProbe, answer, understood

MAXIMUM_CONNECTIONS = 1024
CONNECTION_SECONDS = 10.0
"""One connection's time: a probe takes milliseconds, and a lost packet is sent again within 3 s."""
CHUNK = 1 << 16
BACKLOG = 1024


def listening_socket(port: int) -> socket.socket:
    """A socket on every address of this machine, as torch's TCPStore opens one. Raises `OSError`, `OverflowError`.

    Source: torch's c10d socket and libuv backend: IPv6 with IPv4 mapped into it, else IPv4; SO_REUSEADDR, so that a
    connection in TIME_WAIT is not in the way.
    """
    first: OSError | None = None
    for family, everywhere in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            first = first or error
            continue
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            made.bind((everywhere, port))
            made.listen(BACKLOG)
            made.setblocking(False)
            return made
        except OSError as error:
            made.close()
            first = first or error
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                break
        except BaseException:
            made.close()
            raise
    assert first is not None
    raise first


class _Caller:
    """One accepted connection: reads a line, answers, reads the payload, sends as much back."""

    def __init__(self, connection: socket.socket, secret: str) -> None:
        self.connection = connection
        self.deadline = time.monotonic() + CONNECTION_SECONDS
        self._secret = secret
        self._line = bytearray()
        self._expected = -1
        self._received = 0
        self._owed_line = b""
        self._owed_bytes = 0

    @property
    def wants_to_write(self) -> bool:
        return bool(self._owed_line or self._owed_bytes)

    def read(self) -> bool:
        """Take what has arrived; False when the connection is over."""
        data = self.connection.recv(CHUNK)
        if not data:
            return False
        if self._expected < 0:
            self._line += data
            end = self._line.find(b"\n") + 1
            if not end:
                return len(self._line) <= MAXIMUM_HEADER
            nonce, self._expected = understood(self._secret, bytes(self._line[:end]))
            self._owed_line = answer(self._secret, nonce)
            data = bytes(self._line[end:])
        self._received += len(data)
        if self._received > self._expected:
            return False
        if self._received == self._expected:
            self._owed_bytes = self._expected
        return True

    def write(self) -> bool:
        """Send what is owed; False when nothing more is."""
        if self._owed_line:
            self._owed_line = self._owed_line[self.connection.send(self._owed_line) :]
        elif self._owed_bytes:
            self._owed_bytes -= self.connection.send(bytes(min(CHUNK, self._owed_bytes)))
        return self.wants_to_write or self._received < self._expected


class Listeners:
    """Serves sockets until `close`, or for `seconds`."""

    def __init__(self, sockets: list[socket.socket], secret: str, seconds: float) -> None:
        self._sockets = sockets
        self._secret = secret
        self._end = time.monotonic() + seconds
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="gpudoctor listeners", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close everything; returns when it is closed."""
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(2.0)
        self._wake.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
            callers: dict[int, _Caller] = {}
            stack.callback(_hang_up, callers)
            for listener in self._sockets:
                stack.callback(listener.close)
                selector.register(listener, selectors.EVENT_READ)
            stack.callback(self._woken.close)
            selector.register(self._woken, selectors.EVENT_READ)
            while (left := self._end - time.monotonic()) > 0:
                for key, mask in selector.select(min(left, 1.0)):
                    if key.fileobj is self._woken:
                        return
                    if key.data is None:
                        self._accept(key.fileobj, selector, callers)  # type: ignore[arg-type]
                    else:
                        self._go_on(key.data, mask, selector, callers)
                now = time.monotonic()
                for caller in [caller for caller in callers.values() if caller.deadline < now]:
                    self._drop(caller, selector, callers)

    def _accept(self, listener: socket.socket, selector: selectors.BaseSelector, callers: dict[int, _Caller]) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # the caller waits in the queue; do not spin meanwhile
                time.sleep(0.05)
            return
        if len(callers) >= MAXIMUM_CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        caller = _Caller(connection, self._secret)
        callers[connection.fileno()] = caller
        selector.register(connection, selectors.EVENT_READ, caller)

    def _go_on(self, caller: _Caller, mask: int, selector: selectors.BaseSelector, callers: dict[int, _Caller]) -> None:
        try:
            alive = caller.read() if mask & selectors.EVENT_READ else True
            if alive and caller.wants_to_write:
                alive = caller.write()
        except BlockingIOError:
            alive = True
        except (OSError, RefusedProbe):
            alive = False
        if not alive:
            self._drop(caller, selector, callers)
            return
        interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.wants_to_write else 0)
        selector.modify(caller.connection, interest, caller)

    def _drop(self, caller: _Caller, selector: selectors.BaseSelector, callers: dict[int, _Caller]) -> None:
        callers.pop(caller.connection.fileno(), None)
        selector.unregister(caller.connection)
        caller.connection.close()


def why_not(error: OSError, holder: str) -> str:
    """Why a port could not be opened, as a phrase; `holder` is who listens there, "" when unknown."""
    if error.errno == errno.EADDRINUSE:
        return f"in use by {holder}" if holder else "in use"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission denied"
    return os.strerror(error.errno) if error.errno else str(error)


def _hang_up(callers: "dict[int, _Caller]") -> None:
    for caller in callers.values():
        caller.connection.close()
