"""`Ports`: the agent's side of trying which ports lead from node to node (Listen, Reach, Unlisten)."""

import errno
import socket
import threading
from contextlib import suppress

from gpudoctor.fleet.listeners import Listeners, listening_socket, why_not
from gpudoctor.fleet.messages import Listen, Listening, Reach, Reached, Target
from gpudoctor.fleet.touch import touch

LONGEST_LISTENING = 120.0
LONGEST_TIMEOUT = 10.0
MOST_TARGETS = 4096


class Ports:
    """The listeners of one agent, and its connections to those of the others. To be closed."""

    def __init__(self, node: int) -> None:
        self.node = node
        self._listeners: Listeners | None = None
        self._lock = threading.Lock()
        """An agent that ends closes the ports from another thread than the one that opens them."""

    def listen(self, order: Listen) -> Listening:
        """Open the listeners; those of an earlier order are closed first. Never raises."""
        with self._lock:
            return self._listen(order)

    def _listen(self, order: Listen) -> Listening:
        self._close()
        sockets: list[socket.socket] = []
        ephemeral, error, port_error = 0, "", ""
        try:
            sockets.append(listening_socket(0))
            ephemeral = int(sockets[0].getsockname()[1])
        except OSError as failure:
            error = why_not(failure, "")
        if order.port and self.node in order.port_on:
            try:
                sockets.append(listening_socket(order.port))
            except (OSError, OverflowError) as failure:
                port_error = _why(failure, order.port)
        if sockets:
            try:
                self._listeners = Listeners(sockets, order.secret, min(order.seconds, LONGEST_LISTENING))
            except (OSError, RuntimeError) as failure:  # no descriptors, no threads
                for socket_ in sockets:
                    socket_.close()
                return Listening(number=order.number, error=str(failure))
        return Listening(number=order.number, ephemeral=ephemeral, port_error=port_error, error=error)

    def reach(self, order: Reach) -> Reached:
        """Connect to this node's targets, all at once; takes little longer than the order's timeout."""
        targets = targets_of(order, self.node)[:MOST_TARGETS]
        seconds = min(order.timeout, LONGEST_TIMEOUT)
        touched = touch(targets, order.secret, timeout=seconds, payload_bytes=order.payload_bytes)
        return Reached(number=order.number, touched=touched)

    def close(self) -> None:
        """Close the listeners and their connections."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._listeners is not None:
            self._listeners.close()
            self._listeners = None


def targets_of(order: Reach, node: int) -> tuple[Target, ...]:
    """All that this node is to connect to."""
    mine = str(node)
    targets = list(order.targets.get(mine, ()))
    for peer in order.peers.get(mine, ()):
        if (listener := order.listeners.get(str(peer))) is not None:
            targets.append(Target(peer, *listener))
    if mine in order.peers and order.rendezvous is not None:
        targets.append(order.rendezvous)
    return tuple(targets)


def _why(failure: OSError | OverflowError, port: int) -> str:
    if not isinstance(failure, OSError):
        return f"{port} is no port"
    holder = ""
    if failure.errno == errno.EADDRINUSE:
        # The look-up reads /proc, and is worth its import only here.
        from gpudoctor.read.rendezvous import who_listens
        from gpudoctor.read.system import System

        with suppress(OSError):
            holder = who_listens(System(), port, None)
    return why_not(failure, holder)
