"""`Fleet`: the head's side of the agents. What carries the lines is a subclass (local, ssh, slurm, join)."""

import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from gpudoctor.active import Awaited, Waiting
from gpudoctor.fleet.messages import AnyReply, Bye, Garbled, Order, OrderFailed, Ping, Pong, Reply, encode, reply_from
from gpudoctor.marked import MARK

R = TypeVar("R", bound=Reply)
F = TypeVar("F", bound="Fleet")

PING_SECONDS = 5.0
"""How often the head lets its agents know that it is still there (they end after 30 s without an order)."""
TELL_SECONDS = 0.2
"""How often `ask` says whom it waits for."""
MOST_UNREAD_BYTES = 64 * 1024 * 1024
"""Of one node's replies that nobody has taken yet: two of the longest. Who says more is not answering but flooding."""
MOST_NOISE_BYTES = 16 * 1024 * 1024
"""Of what comes from a node and is no reply: a banner, what its shell's start-up files print."""
EVENT_BYTES = 1024
"""What the shortest reply costs here, roughly."""


class Node(Struct, frozen=True):
    """A machine of the fleet; its index is its place in `Fleet.nodes`."""

    name: str
    """As the user or the scheduler named it, without user and port."""
    user: str = ""
    port: int = 0
    """ssh's port; 0: the user's own configuration decides."""
    slots: int = 0
    """Ranks as a hostfile says; 0: not said."""


LostKind = Literal[
    "auth refused",
    "host key unknown",
    "host key changed",
    "unresolvable",
    "unreachable",
    "refused",
    "no answer",
    "gpudoctor missing",
    "gpudoctor failed",
    "other version",
    "connection lost",
    "joined too late",
    "scheduler",
]

LOST_IDS: dict[LostKind, str] = {
    "auth refused": "node-auth-refused",
    "host key unknown": "node-host-key-unknown",
    "host key changed": "node-host-key-changed",
    "unresolvable": "node-unresolvable",
    "unreachable": "node-unreachable",
    "refused": "node-refused",
    "no answer": "node-no-answer",
    "gpudoctor missing": "gpudoctor-missing-on-node",
    "gpudoctor failed": "gpudoctor-failed-on-node",
    "other version": "gpudoctor-versions-differ",
    "connection lost": "node-connection-lost",
    "joined too late": "too-few-nodes-joined",
    "scheduler": "scheduler-refused",
}
"""What every command calls it."""


def lost_id(why: str) -> str:
    """The id of a loss that is told as "kind: detail"."""
    return next((id for kind, id in LOST_IDS.items() if kind == why.partition(":")[0]), "node-no-answer")


class Lost(Struct, frozen=True):
    """The connection to a node is over, or never was."""

    kind: LostKind
    detail: str = ""
    """What was seen: ssh's last line, the exit status, the version."""

    @property
    def words(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


_TOO_MUCH = "it sends {} without end: another program speaks there, or it has been tampered with"


class Arrival(Struct, frozen=True):
    node: int
    what: AnyReply | Lost
    size: int = 0
    """Bytes that it takes until somebody takes it."""


class Fleet:
    """Agents on several nodes: send orders, take what they reply. Always to be closed (a context manager).

    A subclass starts the agents in its constructor or `__enter__`, writes with `write`, and puts what arrives into
    `self.arrived` from whatever thread it has; the methods here are for one thread, the command's.
    """

    how = "local"
    """ "local", "ssh", "srun" or "join": how the nodes are reached, for words."""
    patience = 20.0
    """Seconds that agents have to say hello: a busy node with a slow name server answers within this."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.arrived: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self.lost: dict[int, Lost] = {}
        self.other_versions: dict[int, str] = {}
        """Nodes whose agent is of another gpudoctor than this, and of which."""
        self.away: frozenset[int] = frozenset()
        """Nodes that left before the start and may come back (join mode)."""
        self._numbers = itertools.count(1)
        self._sent = time.monotonic()
        self._pings: set[int] = set()
        """Numbers of the pings that nobody asked for."""
        self._counting = threading.Lock()
        self._unread: Counter[int] = Counter()
        self._noise: Counter[int] = Counter()
        self._silenced: set[int] = set()
        self._alive: dict[int, float] = {}
        """When each node has last answered one of those (time.monotonic)."""

    # for subclasses

    def heard(self, node: int, line: bytes) -> bool:
        """A line came from a node; False when it is none of an agent's (a banner). For any thread.

        A line that is marked as an agent's and cannot be read means that the two do not understand each other.
        """
        if self.is_over(node):
            return False
        if MARK not in line:
            self._noise[node] += len(line) + 1
            if self._noise[node] > MOST_NOISE_BYTES:
                self.connection_over(node, Lost("gpudoctor failed", _TOO_MUCH.format("what is no answer")))
            return False
        try:
            event = Arrival(node, reply_from(line), size=len(line) + EVENT_BYTES)
        except Garbled as error:
            self.connection_over(node, Lost("gpudoctor failed", f"it said what is no reply: {error}"))
            return True
        with self._counting:
            self._unread[node] += event.size
            is_flood = self._unread[node] > MOST_UNREAD_BYTES
        if is_flood:
            self.connection_over(node, Lost("gpudoctor failed", _TOO_MUCH.format("answers that nobody asked for")))
        else:
            self.arrived.put(event)
        return True

    def connection_over(self, node: int, lost: Lost) -> None:
        """The way to a node is over. For any thread; the first of several counts."""
        self._silenced.add(node)
        self.arrived.put(Arrival(node, lost))

    def took(self, event: Arrival) -> None:
        """An event has left the queue; for whoever takes it otherwise than by `next_event`."""
        with self._counting:
            self._unread[event.node] -= event.size

    def is_over(self, node: int) -> bool:
        """Whether nothing that still comes from a node is of any use."""
        return node in self._silenced

    def write(self, line: bytes) -> None:
        """Send a line to every agent that is still there; never blocks for long, never raises for a lost one."""
        raise NotImplementedError

    def close(self) -> None:
        """End every agent and connection, within two seconds, and leave no process."""
        raise NotImplementedError

    # for users

    def __enter__(self: F) -> F:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def present(self) -> tuple[int, ...]:
        """Indices of the nodes that are not lost."""
        return tuple(index for index in range(len(self.nodes)) if index not in self.lost)

    def name(self, node: int) -> str:
        return self.nodes[node].name

    def send(self, order: Order) -> int:
        """Number an order and send it; the number."""
        number = next(self._numbers)
        self._sent = time.monotonic()
        self.write(encode(msgspec.structs.replace(order, number=number)))
        return number

    def keep_alive(self) -> None:
        """Ping the agents when nothing was sent for a while. `next_event` does it; for whoever waits elsewhere."""
        if time.monotonic() - self._sent >= PING_SECONDS:
            self._pings.add(self.send(Ping()))

    def next_event(self, timeout: float) -> Arrival | None:
        """What arrives next; None when nothing does within `timeout` seconds. Keeps `lost` up to date.

        A node that is lost is reported once; what still comes of it is passed over.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.keep_alive()
            left = max(0.0, deadline - time.monotonic())
            try:
                event = self.arrived.get(timeout=min(left, PING_SECONDS))
            except queue.Empty:
                if left <= PING_SECONDS:
                    return None
                continue
            self.took(event)
            unasked = isinstance(event.what, Pong) and event.what.number in self._pings
            if unasked:
                self._alive[event.node] = time.monotonic()
            if event.node in self.lost or unasked:
                if left == 0.0:  # a lost node that goes on talking must not keep us
                    return None
                continue
            if isinstance(event.what, Lost):
                self.lost[event.node] = event.what
            return event

    def ask(
        self,
        order: Order,
        answer: type[R],
        *,
        timeout: float,
        of: Iterable[int] | None = None,
        patience: float = 0.0,
        waiting: Waiting | None = None,
    ) -> dict[int, R | Lost]:
        """Send an order and wait for one `answer` of each node that it is meant for.

        A node that is or gets lost gives its `Lost`; one that does not answer in time, `Lost("no answer")`, without
        being taken for lost by others; one that still answers pings has `patience` seconds more: it is busy. `waiting`
        is called several times a second with the names of the nodes still awaited, and until when at most.
        """
        wanted = set(order.to or range(len(self.nodes))) if of is None else set(of)
        answers: dict[int, R | Lost] = {node: self.lost[node] for node in wanted if node in self.lost}
        still_open = wanted - answers.keys()
        number = self.send(order)
        now = time.monotonic()
        deadline, told_at = now + timeout, now - TELL_SECONDS
        while still_open and (now := time.monotonic()) < deadline + patience:
            if now >= deadline and not any(self._was_heard(node, now) for node in still_open):
                break
            if waiting is not None and now - told_at >= TELL_SECONDS:  # not for each of a thousand answers
                waiting(Awaited((self.name(node) for node in sorted(still_open)), deadline + patience))
                told_at = now
            event = self.next_event(min(deadline + patience - now, TELL_SECONDS))
            if event is None or event.node not in still_open:
                continue
            if isinstance(event.what, Lost) or (event.what.number == number and isinstance(event.what, answer)):
                answers[event.node] = event.what
            elif event.what.number == number and isinstance(event.what, OrderFailed):
                answers[event.node] = Lost("gpudoctor failed", event.what.error)
            if event.node in answers:
                still_open.discard(event.node)
        for node in still_open:
            answers[node] = Lost("no answer", f"within {timeout:g} s")
        return {node: answers[node] for node in sorted(answers)}

    def _was_heard(self, node: int, now: float) -> bool:
        """Whether a node has answered one of the last pings."""
        return now - self._alive.get(node, -PING_SECONDS * 3) < PING_SECONDS * 2

    def dismiss(self) -> None:
        """Tell the agents to end."""
        self.send(Bye())
