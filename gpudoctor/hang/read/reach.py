"""What this node reaches of what its job names: addresses looked up, ports connected to, who listens there.

A connection is made and closed at once, and nothing is sent: torch's store, and any other server, sees a client that
has changed its mind.
"""

import threading
import time
from collections.abc import Collection, Sequence

from gpudoctor.fleet.facts import Lookup
from gpudoctor.hang.evidence import Interface, Reached, Socket, Unread
from gpudoctor.hang.read.sockets import Row, Tables, socket_of
from gpudoctor.read.interfaces import read_interfaces
from gpudoctor.read.processes import processes
from gpudoctor.read.rendezvous import connect
from gpudoctor.read.system import System

CONNECT_SECONDS = 2.0
MOST_ADDRESSES = 16
MOST_PORTS = 16
MOST_LISTENERS = 64
OUTCOMES = {"accepted": "connected"}


class Attempts:
    """Addresses looked up, and connections to each of them and each port, all at once, begun now.

    The names in `own` are looked up only.
    """

    def __init__(self, addresses: Sequence[str], ports: Sequence[int], seconds: float, own: Sequence[str] = ()) -> None:
        self._deadline = time.monotonic() + seconds
        self._connected = frozenset(addresses[:MOST_ADDRESSES])
        self._wanted = tuple(dict.fromkeys((*addresses[:MOST_ADDRESSES], *own)))
        self._lookup = Lookup(self._wanted, seconds)
        self._found: list[Reached] = []
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
                    self._found.append(Reached(address=name, port=port, outcome="unresolvable"))
                    continue
                thread = threading.Thread(target=self._try, args=(name, addresses, port), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _try(self, name: str, addresses: Sequence[str], port: int) -> None:
        answers: list[tuple[str, str]] = []
        for address in addresses[:4]:
            try:
                outcome = connect(address, port, CONNECT_SECONDS / min(4, len(addresses)))
            except (OSError, OverflowError, ValueError) as error:
                outcome = "unreachable"
                answers.append((outcome, f"{address}: {error}"))
                continue
            answers.append((outcome, "" if address == name else address))
            if outcome == "accepted":
                break
        outcome, detail = min(
            answers, key=lambda each: ("accepted", "refused", "no answer", "unreachable").index(each[0])
        )
        self._found.append(
            Reached(address=name, port=port, outcome=OUTCOMES.get(outcome, outcome), detail=detail[:200])
        )

    def results(self) -> tuple[tuple[Reached, ...], list[Unread]]:
        """What came of those that have ended, and which have not. Waits until the deadline."""
        for thread in (self._begin, *self._threads):
            thread.join(max(0.0, self._deadline - time.monotonic()))
        for thread in list(self._threads):  # those that were begun while we waited
            thread.join(max(0.0, self._deadline - time.monotonic()))
        found = tuple(sorted(self._found, key=lambda each: (each.address, each.port)))
        unread = [
            Unread(f"addresses of {name}", "no name server answered in time; check DNS, or write the address")
            for name in self._wanted
            if name not in self.resolved
        ]
        done = {(each.address, each.port) for each in found}
        unread += [
            Unread(f"connection to {name} port {port}", "no answer in time")
            for name, addresses in self.resolved.items()
            if addresses and name in self._connected
            for port in self._ports
            if (name, port) not in done
        ]
        return found, unread


def interfaces(system: System) -> tuple[Interface, ...]:
    """Of the network namespace that the agent is in. Raises `OSError` with the reason."""
    reading = read_interfaces(system)["network.interfaces"]
    if not reading.is_read:
        raise OSError(reading.reason)
    return tuple(
        Interface(each.name, tuple(address.address for address in each.addresses), each.is_up) for each in reading.value
    )


def listeners(
    system: System, tables: Tables, pids: Sequence[int], ports: Collection[int], names: dict[int, str]
) -> tuple[Socket, ...]:
    """Who listens on these ports, in our network namespace and in those of the processes. Raises `OSError`.

    A listener whose owner's files may not be read has pid 0.
    """
    open_rows: dict[str, Row] = {}
    everywhere: list[int | str] = ["self", *pids]
    for place in everywhere:
        open_rows.update((row.inode, row) for row in tables.listeners(place, ports))
    wanted = dict(list(open_rows.items())[:MOST_LISTENERS])
    found: list[Socket] = []

    def look(pid: int, name: str) -> None:
        for inode in tables.inodes(pid) & wanted.keys():
            found.append(socket_of(wanted.pop(inode), pid, name))

    for pid in pids:
        look(pid, names.get(pid, ""))
    if wanted:
        for process in processes(system):
            if not process.is_kernel_thread and process.state not in "ZX" and process.pid not in names:
                look(process.pid, process.name.encode("utf-8", "backslashreplace").decode())
            if not wanted:
                break
    found += [socket_of(row) for row in wanted.values()]
    return tuple(sorted(found, key=lambda socket: (socket.local_port, socket.local, socket.pid)))
