"""What this node reaches of what its job names: addresses looked up, ports connected to, who listens there.

A connection is made and closed at once, and nothing is sent: torch's store, and any other server, sees a client that
has changed its mind. The address is the job's word, though, and root reaches what its user may not: so root connects
where the job's own processes have a connection, or where the nodes of the job were named (`--hosts`), and else says so.
"""

import ipaddress
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from gpudoctor.read.interfaces import read_interfaces
from gpudoctor.read.lookup import Lookup
from gpudoctor.read.process import processes
from gpudoctor.read.rendezvous import connect
from gpudoctor.read.sockets import SocketRow, Tables, socket_of
from gpudoctor.read.system import System
from gpudoctor.read.users import user_of
from gpudoctor.snapshot.evidence import ConnectionAttempt, NodeInterface, Socket, Unread

CONNECT_SECONDS = 2.0
MOST_ADDRESSES = 16
MOST_PORTS = 16
MOST_LISTENERS = 64
OUTCOMES = {"accepted": "connected"}
LOOK_AGAIN_SECONDS = 0.5
"""A rank that asks again and again for its store has a socket for it from time to time."""
NOT_TRIED = (
    "not tried: the address is the job's word, and root connects only where the job's processes do; `gpudoctor hang "
    "--hosts` with the nodes of the job tries it, and so does its user"
)
Allowed = Callable[[str, int], bool]
"""Whether a connection to an address and port may be tried."""


class Held:
    """The far ends to which these processes are connected or connecting, in our own network namespace."""

    def __init__(self, system: System, pids: Iterable[int]) -> None:
        self._system = system
        self._pids = tuple(pids)
        self._lock = threading.Lock()
        self._read = float("-inf")
        self._ends: set[tuple[str, int]] = set()

    def __call__(self, address: str, port: int) -> bool:
        with self._lock:
            if time.monotonic() - self._read >= LOOK_AGAIN_SECONDS:
                self._ends |= self._now()
                self._read = time.monotonic()
            return (_canonical(address), port) in self._ends

    def _now(self) -> set[tuple[str, int]]:
        tables = Tables(self._system)
        own = tables.of("self")
        reached = set()
        for pid in self._pids:
            if tables.of(pid) is own:
                rows = (own[inode] for inode in tables.inodes(pid) if inode in own)
                reached |= {(_canonical(row.remote), row.remote_port) for row in rows if row.state in CONNECTED}
        return reached


CONNECTED = ("ESTABLISHED", "SYN_SENT", "CLOSE_WAIT")


def may_connect(system: System, pids: Iterable[int], *, named: bool) -> Allowed:
    """Where the agent may connect to. `named`: the nodes of the job were named by whoever asks."""
    if named or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return lambda address, port: True
    return Held(system, pids)


def _canonical(address: str) -> str:
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = number.ipv4_mapped if isinstance(number, ipaddress.IPv6Address) else None
    return str(mapped or number)


def listener_of(system: System, pid: int, port: int) -> str:
    """The address at which a process's user listens on a port, in that process's network namespace; "" for none."""
    user = user_of(system, pid)
    for row in Tables(system).listeners(pid, (port,)):
        if row.user == user:
            anywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
            return anywhere.get(row.local, row.local)
    return ""


class Attempts:
    """Addresses looked up, and connections to each of them and each port, all at once, begun now.

    The names in `own` are looked up only.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        ports: Sequence[int],
        seconds: float,
        own: Sequence[str] = (),
        allowed: Allowed = lambda address, port: True,
    ) -> None:
        self._deadline = time.monotonic() + seconds
        self._allowed = allowed
        self._not_tried: set[tuple[str, int]] = set()
        self._wanted_now = threading.Event()
        self._connected = frozenset(addresses[:MOST_ADDRESSES])
        self._wanted = tuple(dict.fromkeys((*addresses[:MOST_ADDRESSES], *own)))
        self._lookup = Lookup(self._wanted, seconds)
        self._found: list[ConnectionAttempt] = []
        self._threads: list[threading.Thread] = []
        self._ports = ports[:MOST_PORTS]
        self._begin = threading.Thread(target=self._work, daemon=True)
        self.resolved: dict[str, tuple[str, ...]] = {}
        self._begin.start()

    def _work(self) -> None:
        self.resolved = self._lookup.answers()
        for name, addresses in list(self.resolved.items()):
            for port in self._ports if name in self._connected else ():
                if not addresses:
                    self._found.append(ConnectionAttempt(address=name, port=port, outcome="unresolvable"))
                    continue
                thread = threading.Thread(target=self._try, args=(name, addresses, port), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _try(self, name: str, addresses: Sequence[str], port: int) -> None:
        answers: list[tuple[str, str]] = []
        for address in self._permitted(name, addresses[:4], port):
            try:
                outcome = connect(address, port, CONNECT_SECONDS / min(4, len(addresses)))
            except (OSError, OverflowError, ValueError) as error:
                outcome = "unreachable"
                answers.append((outcome, f"{address}: {error}"))
                continue
            answers.append((outcome, "" if address == name else address))
            if outcome == "accepted":
                break
        if not answers:
            return
        outcome, detail = min(
            answers, key=lambda answer: ("accepted", "refused", "no answer", "unreachable").index(answer[0])
        )
        self._found.append(
            ConnectionAttempt(address=name, port=port, outcome=OUTCOMES.get(outcome, outcome), detail=detail[:200])
        )

    def _permitted(self, name: str, addresses: Sequence[str], port: int) -> list[str]:
        """The addresses to which a connection may be tried, as soon as one is; none once results are wanted."""
        while not (allowed := [address for address in addresses if self._allowed(address, port)]):
            if self._wanted_now.wait(LOOK_AGAIN_SECONDS):
                self._not_tried.add((name, port))
                break
        return allowed

    def results(self) -> tuple[tuple[ConnectionAttempt, ...], list[Unread]]:
        """What came of those that have ended, and which have not. Waits until the deadline."""
        self._begin.join(max(0.0, self._deadline - time.monotonic()))
        self._wanted_now.set()
        for thread in (self._begin, *self._threads):
            thread.join(max(0.0, self._deadline - time.monotonic()))
        for thread in list(self._threads):  # those that were begun while we waited
            thread.join(max(0.0, self._deadline - time.monotonic()))
        attempts = tuple(sorted(self._found, key=lambda attempt: (attempt.address, attempt.port)))
        unread = [
            Unread(f"addresses of {name}", "no name server answered in time; check DNS, or write the address")
            for name in self._wanted
            if name not in self.resolved
        ]
        done = {(attempt.address, attempt.port) for attempt in attempts}
        unread += [
            Unread(
                f"connection to {name} port {port}",
                NOT_TRIED if (name, port) in self._not_tried else "no answer in time",
            )
            for name, addresses in self.resolved.items()
            if addresses and name in self._connected
            for port in self._ports
            if (name, port) not in done
        ]
        return attempts, unread


def interfaces(system: System) -> tuple[NodeInterface, ...]:
    """Of the network namespace that the agent is in. Raises `OSError` with the reason."""
    reading = read_interfaces(system)["network.interfaces"]
    if not reading.is_read:
        raise OSError(reading.reason)
    return tuple(
        NodeInterface(each.name, tuple(address.address for address in each.addresses), each.is_up)
        for each in reading.value
    )


def listeners(
    system: System, tables: Tables, pids: Sequence[int], ports: Collection[int], names: dict[int, str]
) -> tuple[Socket, ...]:
    """Who listens on these ports, in our network namespace and in those of the processes. Raises `OSError`.

    A listener whose owner's files may not be read has pid 0.
    """
    open_rows: dict[str, SocketRow] = {}
    everywhere: list[int | str] = ["self", *pids]
    for place in everywhere:
        open_rows.update((row.inode, row) for row in tables.listeners(place, ports))
    wanted = dict(list(open_rows.items())[:MOST_LISTENERS])
    sockets: list[Socket] = []

    def look(pid: int, name: str) -> None:
        for inode in tables.inodes(pid) & wanted.keys():
            sockets.append(socket_of(wanted.pop(inode), pid, name))

    for pid in pids:
        look(pid, names.get(pid, ""))
    if wanted:
        for process in processes(system):
            if not process.is_kernel_thread and process.state not in "ZX" and process.pid not in names:
                look(process.pid, process.printable)
            if not wanted:
                break
    sockets += [socket_of(row) for row in wanted.values()]
    return tuple(sorted(sockets, key=lambda socket: (socket.local_port, socket.local, socket.pid)))
