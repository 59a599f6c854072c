"""What the kernel knows of the connections that a job's ranks have to other machines: how long an answer takes, what
was sent again (sock_diag(7), and tcp_info of <linux/tcp.h>). Nothing is sent, and anybody may ask.
"""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Collection, Iterator
from statistics import median
from typing import NamedTuple

from gpudoctor.snapshot.pace import LinkUse

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLMSG_DONE = 4, 20, 3
REQUEST = struct.Struct("=IHHIIBBBBI48x")
"""nlmsghdr and inet_diag_req_v2."""
DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
INFO = 2  # INET_DIAG_INFO
ESTABLISHED = 1 << 1
HEADER, MESSAGE, ATTRIBUTE = struct.Struct("=IHHII"), 72, struct.Struct("=HH")
FLAGS, RTT, AGAIN, ACKED, SENT, RATE, BUSY = 7, 68, 100, 120, 156, 160, 168
"""Where they stand in tcp_info: microseconds, segments, bytes, data segments, bytes a second, microseconds with
something under way. The lowest bit of the flags: the rate is what the program gave, and not what the way took; such a
one takes the place of another only where it is higher (tcp_rate.c)."""
ANSWER_SECONDS = 1.0
LOOK_SECONDS, BETWEEN_SECONDS = 1.25, 0.05
"""How long an answer takes is the median of these looks: one may have met a moment in which a processor was taken."""
LOOK_SHARE = 0.05
"""Of the time, that looking may take: a node may have thousands of connections."""
LEAST_HELD = 2
"""Looks that must have met a connection whose way took no more."""
LEAST_BYTES = 20_000
"""Acknowledged in the time of the look: of less the kernel's rate says nothing."""
MOST_SOCKETS = 65536
MOST_LINKS = 1024


class _Counted(NamedTuple):
    rtt: float = 0.0
    sent: int = 0
    again: int = 0
    busy: float = 0.0
    acked: int = 0
    rate: float = 0.0
    held: tuple[float, ...] = ()
    """The rates of those connections whose way took no more."""

    def with_(self, other: "_Counted") -> "_Counted":
        """The slowest of several connections, and the sums of all."""
        return _Counted(
            max(self.rtt, other.rtt),
            self.sent + other.sent,
            self.again + other.again,
            max(self.busy, other.busy),
            self.acked + other.acked,
            max(self.rate, other.rate),
            (*self.held, *other.held),
        )


class LinksOfRanks:
    """Of these processes, from now until `told`."""

    def __init__(self, pids: Collection[int]) -> None:
        self._pids = [pid for pid in pids if _net(pid) == _net(os.getpid())]
        self._inodes = {inode for pid in self._pids for inode in _inodes(pid)}
        self._seen: dict[tuple[str, str], list[tuple[float, _Counted]]] = {}
        """When a pair of addresses was looked at, and what was counted by then."""
        self._look()

    def told(self) -> tuple[LinkUse, ...]:
        """A second later, where there is anything to tell."""
        self._inodes = {inode for pid in self._pids for inode in _inodes(pid)}
        until = time.monotonic() + LOOK_SECONDS
        while self._seen and time.monotonic() < until:
            time.sleep(max(BETWEEN_SECONDS, self._took / LOOK_SHARE))
            self._look()
        uses = []
        for (local, peer), looks in sorted(self._seen.items())[:MOST_LINKS]:
            (begun, first), (ended, last) = looks[0], looks[-1]
            lasts = max(ended - begun, BETWEEN_SECONDS)
            is_used = last.acked - first.acked >= LEAST_BYTES
            held = [rate for _, counted in looks for rate in counted.held if rate] if is_used else []
            uses.append(
                LinkUse(
                    local=local,
                    peer=peer,
                    answers_after=round(median(counted.rtt for _, counted in looks), 6),
                    sent=last.sent,
                    sent_again=last.again,
                    busy=round(min(1.0, max(0.0, last.busy - first.busy) / lasts), 3),
                    carried=round(max(0, last.acked - first.acked) / lasts, 1),
                    held_to=round(median(held), 1) if len(held) >= LEAST_HELD else 0.0,
                    reached=round(max(counted.rate for _, counted in looks), 1),
                )
            )
        return tuple(uses)

    def _look(self) -> None:
        now = time.monotonic()
        for ends, counted in self._read().items():
            self._seen.setdefault(ends, []).append((now, counted))
        self._took = time.monotonic() - now

    def _read(self) -> dict[tuple[str, str], _Counted]:
        """By both addresses: the slowest of their connections, and the sums of all."""
        if not self._pids:
            return {}
        by_ends: dict[tuple[str, str], _Counted] = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            for inode, local, peer, seen in _sockets(family):
                if inode in self._inodes and local != peer:
                    by_ends[local, peer] = by_ends.get((local, peer), _Counted()).with_(seen)
        return by_ends


def _net(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    except OSError:
        return ""


def _inodes(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError, ValueError):
                target = os.readlink(entry.path)  # noqa: PTH115
                if target.startswith("socket:["):
                    yield int(target[8:-1])


def _sockets(family: int) -> Iterator[tuple[int, str, str, _Counted]]:
    """Inode, both addresses, and what is counted, of each TCP connection here."""
    with (
        contextlib.suppress(OSError, AttributeError, struct.error),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as asked,
    ):
        asked.settimeout(ANSWER_SECONDS)
        request = REQUEST.pack(
            REQUEST.size, SOCK_DIAG_BY_FAMILY, DUMP, 1, 0, family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, ESTABLISHED
        )
        asked.send(request)
        for _ in range(MOST_SOCKETS):
            answer = asked.recv(1 << 18)
            at = 0
            while at + HEADER.size <= len(answer):
                length, kind, *_ = HEADER.unpack_from(answer, at)
                if kind <= NLMSG_DONE or length < HEADER.size:  # the end, or an error
                    return
                if (seen := _one(family, answer[at + HEADER.size : at + length])) is not None:
                    yield seen
                at += length + 3 & ~3


def _one(family: int, message: bytes) -> tuple[int, str, str, _Counted] | None:
    size = 4 if family == socket.AF_INET else 16
    ends = [_address(family, message[at : at + size]) for at in (8, 24)]
    (inode,) = struct.unpack_from("=I", message, MESSAGE - 4)
    at = MESSAGE
    while at + ATTRIBUTE.size <= len(message):
        length, kind = ATTRIBUTE.unpack_from(message, at)
        if length < ATTRIBUTE.size:
            return None
        if kind == INFO:
            told = message[at + ATTRIBUTE.size : at + length]
            if len(told) < BUSY + 8:  # before Linux 4.10
                return None
            rtt, again, sent = (struct.unpack_from("=I", told, place)[0] for place in (RTT, AGAIN, SENT))
            acked, rate, busy = (struct.unpack_from("=Q", told, place)[0] for place in (ACKED, RATE, BUSY))
            held = () if told[FLAGS] & 1 else (float(rate),)
            return inode, *ends, _Counted(rtt / 1e6, sent, again, busy / 1e6, acked, rate, held)
        at += length + 3 & ~3
    return None


def _address(family: int, raw: bytes) -> str:
    """IPv4 that is mapped into IPv6 as IPv4."""
    if family == socket.AF_INET6 and raw.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(family, raw)
