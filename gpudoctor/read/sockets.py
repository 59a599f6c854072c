"""TCP sockets of processes, in whichever network namespace they are: /proc/PID/net/tcp and the inodes of /proc/PID/fd.

Nothing is sent, and no namespace is entered. A table is read once for all processes of a namespace.
"""

import socket
import sys
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import Socket

STATES = (
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
)
"""By number, <net/tcp_states.h>."""
MOST = 512
"""Sockets of one process that are told."""
MAXIMUM_TABLE = 64 * 1024 * 1024
MOST_FILES = 65536
USUAL = frozenset({"ESTABLISHED", "LISTEN", "TIME_WAIT"})


class SocketRow(NamedTuple):
    """A line of /proc/net/tcp."""

    inode: str
    state: str
    local: str
    local_port: int
    remote: str
    remote_port: int
    unsent: int
    unread: int
    retransmits: int
    user: int
    """The number of the user whose socket it is."""


def rows(text: str) -> list[SocketRow]:
    """/proc/net/tcp or tcp6 (proc(5)); lines that are none are passed over."""
    socket_rows: list[SocketRow] = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10:
            continue
        local, remote = end(words[1]), end(words[2])
        sent, _, received = words[4].partition(":")
        try:
            state = STATES[int(words[3], 16)]
            queues = int(sent, 16), int(received, 16)
            retransmits = int(words[6], 16)
            user = int(words[7])
        except (ValueError, IndexError):
            continue
        if local is None or remote is None or not state:
            continue
        socket_rows.append(SocketRow(words[9], state, *local, *remote, *queues, retransmits, user))
    return socket_rows


def end(words: str) -> tuple[str, int] | None:
    """An end of these tables, 32-bit words in the machine's byte order, then the port; None for garbage.

    IPv4 that is mapped into IPv6 is given as IPv4.
    """
    digits, _, port = words.partition(":")
    try:
        raw = bytes.fromhex(digits)
        number = int(port, 16)
    except ValueError:
        return None
    if len(raw) not in (4, 16) or not 0 <= number < 1 << 16:
        return None
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(raw) == 16 and raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), number


class Tables:
    """The sockets of each network namespace that is asked for, read when first asked."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._found: dict[str, dict[str, SocketRow]] = {}

    def of(self, pid: int | str) -> dict[str, SocketRow]:
        """Inode -> socket, of the namespace that a process is in. Empty where it cannot be read."""
        try:
            name = self.system.link(f"/proc/{pid}/ns/net")
        except OSError:
            name = f"of {pid}"
        if name not in self._found:
            table: dict[str, SocketRow] = {}
            for file in ("tcp", "tcp6"):
                try:
                    raw = self.system.raw(f"/proc/{pid}/net/{file}", MAXIMUM_TABLE)
                except OSError:
                    continue
                table.update((row.inode, row) for row in rows(raw.decode("ascii", "replace")))
            table.pop("0", None)  # of nobody any more: TIME_WAIT
            self._found[name] = table
        return self._found[name]

    def inodes(self, pid: int) -> set[str]:
        """Inodes of the sockets that a process has open; none where they may not be read."""
        try:
            return self.inodes_or_raise(pid)
        except OSError:
            return set()

    def inodes_or_raise(self, pid: int) -> set[str]:
        """Raises `OSError`."""
        inodes = set()
        folder = f"/proc/{pid}/fd"
        for name in self.system.names(folder)[:MOST_FILES]:
            try:
                target = self.system.link(f"{folder}/{name}")
            except FileNotFoundError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        return inodes

    def communicates(self, pid: int, *, without: Collection[str] = ()) -> bool:
        """See `Process.communicates`."""
        table = self.of(pid)
        return any(
            inode in table and table[inode].state in ("LISTEN", "SYN_SENT")
            for inode in self.inodes(pid)
            if inode not in without
        )

    def sockets(self, pid: int, name: str) -> tuple[Socket, ...]:
        """A process's sockets, those in an unusual state first, at most `MOST`. Raises `OSError`."""
        own = self.inodes_or_raise(pid)
        table = self.of(pid)
        return bounded(socket_of(table[inode], pid, name) for inode in sorted(own) if inode in table)

    def listeners(self, pid: int | str, ports: Collection[int]) -> list[SocketRow]:
        """Who listens on these ports in the namespace that a process is in."""
        return [row for row in self.of(pid).values() if row.state == "LISTEN" and row.local_port in ports]


def socket_of(row: SocketRow, pid: int = 0, process: str = "") -> Socket:
    return Socket(
        state=row.state,
        local=row.local,
        local_port=row.local_port,
        remote="" if row.state == "LISTEN" else row.remote,
        remote_port=row.remote_port,
        unsent_bytes=row.unsent,
        unread_bytes=row.unread,
        retransmits=row.retransmits,
        pid=pid,
        process=process,
    )


def bounded(sockets: Iterable[Socket]) -> tuple[Socket, ...]:
    """The unusual first: in a state that should pass, with data that is not taken, sent again."""

    def order(one: Socket) -> tuple[bool, bool, bool, str, int, str, int]:
        busy = one.retransmits > 0 or one.unsent_bytes > 0
        place = one.remote, one.remote_port, one.local, one.local_port
        return one.state in USUAL, not busy, one.state != "LISTEN", *place

    return tuple(sorted(sockets, key=order)[:MOST])
