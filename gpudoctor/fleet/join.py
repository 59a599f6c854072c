"""Join mode, the head's side: nodes that nothing reaches from here come by themselves, with a line that was pasted.

    GPUDOCTOR_TOKEN=... gpudoctor nccl-test --join HEAD:PORT

The token is for one test, and in the environment because every user of a machine can read the others' command lines.
The listener is on one address, for the length of the wait only, and closed once all nodes are there.
"""

import contextlib
import ipaddress
import queue
import random
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from gpudoctor import __version__
from gpudoctor.errors import BadInput
from gpudoctor.fleet.fleet import Arrival, Fleet, Lost, Node
from gpudoctor.fleet.hosts import is_host
from gpudoctor.fleet.join_channel import Channel, Forged, TooLong
from gpudoctor.fleet.join_door import HANDSHAKE_SECONDS, LEFT, Door, Doorkeeper
from gpudoctor.fleet.join_messages import Newcomer, Verdict, Welcome, machine_identity, with_port
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import PROTOCOL, Bye, encode
from gpudoctor.fleet.ssh_errors import printable
from gpudoctor.fleet.take_part import TOKEN as TOKEN, take_part as take_part

FIRST_PORT, LAST_PORT = 61000, 65535
"""Above what Linux hands out to clients (ip_local_port_range ends at 60999)."""
MOST_UNSEATED = 64
"""Nodes that have proved themselves and have no place yet, at a time: a thread each, for milliseconds."""
CLOSE_SECONDS = 1.0
SILENCE_MILLISECONDS = 20_000
"""What is sent to a machine that vanished is given up after so long (TCP_USER_TIMEOUT); pings go every 5 s."""
BACKLOG = 1024


class NoListener(BadInput):
    """The address cannot be listened on; the message is one line for the user."""


class JoinFleet(Fleet):
    """This machine's agent as node 0, and `count` - 1 that join. The constructor returns at once.

    A node that is not there after `wait` seconds is `Lost("joined too late")`. One that leaves while others are still
    awaited may come back.
    """

    how = "join"

    def __init__(
        self,
        count: int,
        *,
        address: str,
        port: int = 0,
        wait: float = 600.0,
        token: str = "",
        on_joined: Callable[[tuple[str, ...]], None] | None = None,
        on_turned_away: Callable[[str], None] | None = None,
    ) -> None:
        """`address`: this head's, the only one that is listened on. `port` 0: one that nobody else gets by chance.

        `on_joined` is called, from another thread, with the names of those that are there; `on_turned_away`, now and
        then, with a line that says who was not let in, and why. Raises `NoListener`.
        """
        own = socket.gethostname()
        super().__init__([Node(own), *(Node(f"node {index}") for index in range(1, count))])
        self.token = token or secrets.token_urlsafe(24)
        self._keeper = Doorkeeper(on_turned_away)
        self._count = count
        self._on_joined = on_joined
        self._deadline = time.monotonic() + wait
        self._wait = wait
        self.patience = wait + HANDSHAKE_SECONDS
        self._lock = threading.Lock()
        self._machines = {machine_identity(): 0}
        self._seats: dict[int, _Seat] = {}
        self._unseated = 0
        self._connections: set[socket.socket] = set()
        self._closed = False
        self._is_over = False
        self._listener = listener_at(address, port)
        self.port: int = self._listener.getsockname()[1]
        self.where = with_port(address, self.port)
        try:
            self._local = LocalFleet([Node(own)])
        except BaseException:
            self._listener.close()
            raise
        self._threads = [
            threading.Thread(target=self._forward, daemon=True),
            threading.Thread(target=self._watch_the_door, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "JoinFleet":
        return self

    @property
    def turned_away(self) -> Counter[str]:
        """ "10.0.0.7: wrong token" -> how often."""
        return self._keeper.counts

    @property
    def line(self) -> str:
        """What is to be pasted on every other node."""
        return f"{TOKEN}={self.token} gpudoctor nccl-test --join {self.where}"

    @property
    def joined(self) -> tuple[str, ...]:
        """Names of the nodes that are there, this one first."""
        with self._lock:
            return tuple(self.nodes[index].name for index in (0, *sorted(self._seats)))

    # ------------------------------------------------------------ who comes

    def _watch_the_door(self) -> None:
        """Until all are there, the deadline passes, or the fleet is closed."""
        door = Door(self._listener, self.token, proved=self._let_in, turned_away=self._keeper.turned_away)
        door.serve(self._is_open)
        with self._lock:
            self._is_over = True
            missing = [] if self._closed else [index for index in range(1, self._count) if index not in self._seats]
        if missing:
            why = self._why_missing()
            for index in missing:
                self.connection_over(index, Lost("joined too late", why))

    def _why_missing(self) -> str:
        others = Doorkeeper.summary(self.turned_away)
        return f"not joined within {self._wait:g} s" + (f"; {others}" if others else "")

    def _is_open(self) -> bool:
        self._keeper.speak()
        return not self._closed and not self._is_full() and time.monotonic() < self._deadline

    def _is_full(self) -> bool:
        with self._lock:
            return len(self._seats) >= self._count - 1

    def _let_in(self, channel: Channel, connection: socket.socket, host: str) -> bool:
        """Give who has proved itself a thread; False when there is none."""
        with self._lock:
            if self._unseated >= MOST_UNSEATED:
                return False
            self._unseated += 1
            self._connections.add(connection)
        try:
            threading.Thread(target=self._meet, args=(channel, connection, host), daemon=True).start()
        except RuntimeError:  # no more threads: a limit of processes or memory
            with self._lock:
                self._unseated -= 1
                self._connections.discard(connection)
            return False
        return True

    def _meet(self, channel: Channel, connection: socket.socket, host: str) -> None:
        """A connection from its introduction to its end, in a thread of its own."""
        seat: _Seat | None = None
        try:
            try:
                late = threading.Timer(HANDSHAKE_SECONDS, _hang_up, (connection,))
                late.start()
                try:
                    seat = self._seat(channel, host)
                finally:
                    late.cancel()
            except (OSError, Forged, TooLong, msgspec.MsgspecError, ValueError, RecursionError, RuntimeError):
                self._keeper.turned_away(host, LEFT)
            finally:
                with self._lock:
                    self._unseated -= 1
            if seat is not None:
                keep_alive(connection)
                self._hear(seat)
        finally:
            with self._lock:
                self._connections.discard(connection)
            if seat is not None:
                seat.outgoing.put(None)
                seat.writer.join(CLOSE_SECONDS)
            channel.close()

    def _seat(self, channel: Channel, host: str) -> "_Seat | None":
        """Give the newcomer its place, or tell it why there is none."""
        received = channel.receive()
        if received is None or received[0] != "C":
            raise ValueError("no introduction")
        newcomer = msgspec.json.decode(received[1], type=Newcomer)
        name = newcomer.hostname if is_host(newcomer.hostname) and ":" not in newcomer.hostname else host
        with self._lock:
            refused = self._refusal(newcomer, name)
            if not refused:
                index = next(index for index in range(1, self._count) if index not in self._seats)
                self._machines[newcomer.machine] = index
                nodes = list(self.nodes)
                taken = {node.name for node in nodes}
                nodes[index] = Node(name if name not in taken else f"{name} ({host})")
                self.nodes = tuple(nodes)
                seat = self._seats[index] = _Seat(index, channel)
                self.away -= {index}
        if refused:
            channel.send("C", msgspec.json.encode(Welcome(refused=refused)))
            self._keeper.turned_away(host, refused)
            return None
        seat.writer.start()
        # Its place is taken from here on: when it is gone already, or nobody reads what is shown, `_hear` must follow,
        # which says so of this node.
        with contextlib.suppress(OSError):
            channel.send("C", msgspec.json.encode(Welcome(node=index, nodes=self._count)))
        self._tell_who_is_there()
        return seat

    def _tell_who_is_there(self) -> None:
        if self._on_joined is not None:
            with contextlib.suppress(OSError, ValueError):
                self._on_joined(self.joined)

    def _refusal(self, newcomer: Newcomer, name: str) -> str:
        if (newcomer.gpudoctor, newcomer.protocol) != (__version__, PROTOCOL):
            theirs = printable(newcomer.gpudoctor)[:32]
            return f"{name} has gpudoctor {theirs}, the head {__version__}; both must have the same"
        if newcomer.machine in self._machines:
            index = self._machines[newcomer.machine]
            return f"{name} takes part already, as node {index}" + (", the head" if index == 0 else "")
        if len(self._seats) >= self._count - 1:
            return f"all {self._count} nodes have joined already"
        if self._closed or self._is_over:
            return f"it waited {self._wait:g} s for its nodes, and no longer"
        return ""

    def _hear(self, seat: "_Seat") -> None:
        detail = "it closed the connection"
        try:
            while (received := seat.channel.receive()) is not None:
                if received[0] == "O":
                    self.heard(seat.index, received[1])
                    if self.is_over(seat.index):
                        return  # the first reason counts
        except OSError as error:
            detail = error.strerror or str(error)
        except (Forged, TooLong) as error:
            detail = str(error)
        if not self._vacated(seat):
            self.connection_over(seat.index, Lost("connection lost", detail))

    def _vacated(self, seat: "_Seat") -> bool:
        """Free the place of who left while others are still awaited: it may come back, or another in its place."""
        with self._lock:
            if self._closed or self._is_over or len(self._seats) >= self._count - 1:
                return False
            del self._seats[seat.index]
            self._machines = {machine: index for machine, index in self._machines.items() if index != seat.index}
            nodes = list(self.nodes)
            nodes[seat.index] = Node(f"node {seat.index}")
            self.nodes = tuple(nodes)
            self.away |= {seat.index}
        self._tell_who_is_there()
        return True

    def _forward(self) -> None:
        """What this machine's own agent says."""
        while (event := self._local.arrived.get()).node >= 0:
            self._local.took(event)
            self.arrived.put(msgspec.structs.replace(event, size=0))

    # ------------------------------------------------------------ the head

    def write(self, line: bytes) -> None:
        self._local.write(line)
        with self._lock:
            seats = tuple(self._seats.values())
        for seat in seats:
            seat.outgoing.put(("O", line.rstrip(b"\n")))

    def tell(self, status: int) -> None:
        """Tell the joiners the exit status that their own command shall have; call it before `close`."""
        with self._lock:
            seats = tuple(self._seats.values())
        for seat in seats:
            seat.outgoing.put(("C", msgspec.json.encode(Verdict(status))))

    def close(self) -> None:
        self._closed = True
        self.write(encode(Bye()))
        with self._lock:
            seats, connections = tuple(self._seats.values()), tuple(self._connections)
        for seat in seats:
            seat.outgoing.put(None)
        deadline = time.monotonic() + CLOSE_SECONDS
        for seat in seats:
            seat.writer.join(max(0.0, deadline - time.monotonic()))
        for connection in connections:
            _hang_up(connection)
        self._local.close()
        self._local.arrived.put(Arrival(-1, Lost("connection lost")))
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)


class _Seat:
    """A node that has joined: its channel, and a thread that writes, so that a slow one keeps nobody waiting."""

    def __init__(self, index: int, channel: Channel) -> None:
        self.index = index
        self.channel = channel
        self.outgoing: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self.writer = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # whoever reads it hears of the end
            while (message := self.outgoing.get()) is not None:
                self.channel.send("O" if message[0] == "O" else "C", message[1])


def listener_at(address: str, port: int) -> socket.socket:
    """Listen on this address only. Raises `NoListener`."""
    try:
        plain = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        raise NoListener(f"{address!r} is no IP address of this machine") from None
    if plain.is_unspecified or plain.is_multicast:
        raise NoListener(f"{address} is no address that others can connect to; name one of this machine's interfaces")
    family = socket.AF_INET6 if plain.version == 6 else socket.AF_INET
    ports = [port] if port else random.sample(range(FIRST_PORT, LAST_PORT + 1), 20)
    error: OSError | None = None
    for candidate in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            target = socket.getaddrinfo(address, candidate, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)[0][4]
            listener.bind(target)
            listener.listen(BACKLOG)
        except OSError as problem:
            listener.close()
            error = problem
        else:
            return listener
    reason = error.strerror if error is not None else "no free port"
    raise NoListener(f"cannot listen on {with_port(address, ports[-1])}: {reason}")


def _hang_up(connection: socket.socket) -> None:
    """End it for whoever reads from it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def keep_alive(connection: socket.socket) -> None:
    """Notice a machine that vanished: its power or its cable."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MILLISECONDS)
