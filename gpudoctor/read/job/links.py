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
RTT, AGAIN, SENT, BUSY = 68, 100, 156, 168
"""Where they stand in tcp_info: microseconds, segments, data segments, microseconds with something under way."""
ANSWER_SECONDS = 1.0
LOOKS, BETWEEN_SECONDS = 5, 0.25
"""How long an answer takes is their median: one alone may have met a moment in which a processor was taken."""
MOST_SOCKETS = 65536
MOST_LINKS = 1024


class _Counted(NamedTuple):
    rtt: float
    sent: int
    again: int
    busy: float


class LinksOfRanks:
    """Of these processes, from now until `told`."""

    def __init__(self, pids: Collection[int]) -> None:
        self._pids = [pid for pid in pids if _net(pid) == _net(os.getpid())]
        self._seen: dict[tuple[str, str], list[tuple[float, _Counted]]] = {}
        """When a pair of addresses was looked at, and what was counted by then."""
        self._look()

    def told(self) -> tuple[LinkUse, ...]:
        """A second later, where there is anything to tell."""
        for _ in range(LOOKS if self._seen else 0):
            time.sleep(BETWEEN_SECONDS)
            self._look()
        uses = []
        for (local, peer), looks in sorted(self._seen.items())[:MOST_LINKS]:
            (begun, first), (ended, last) = looks[0], looks[-1]
            uses.append(
                LinkUse(
                    local=local,
                    peer=peer,
                    answers_after=round(median(counted.rtt for _, counted in looks), 6),
                    sent=last.sent,
                    sent_again=last.again,
                    busy=round(min(1.0, max(0.0, last.busy - first.busy) / max(ended - begun, BETWEEN_SECONDS)), 3),
                )
            )
        return tuple(uses)

    def _look(self) -> None:
        now = time.monotonic()
        for ends, counted in self._read().items():
            self._seen.setdefault(ends, []).append((now, counted))

    def _read(self) -> dict[tuple[str, str], _Counted]:
        """By both addresses: the slowest of their connections, and the sums of all."""
        if not self._pids:
            return {}
        inodes = {inode for pid in self._pids for inode in _inodes(pid)}
        by_ends: dict[tuple[str, str], _Counted] = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            for inode, local, peer, seen in _sockets(family):
                if inode not in inodes or local == peer:
                    continue
                known = by_ends.get((local, peer), _Counted(0.0, 0, 0, 0.0))
                by_ends[local, peer] = _Counted(
                    max(known.rtt, seen.rtt),
                    known.sent + seen.sent,
                    known.again + seen.again,
                    max(known.busy, seen.busy),
                )
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
            return inode, ends[0], ends[1], _Counted(
                rtt / 1e6, sent, again, struct.unpack_from("=Q", told, BUSY)[0] / 1e6
            )  # fmt: skip
        at += length + 3 & ~3
    return None


def _address(family: int, raw: bytes) -> str:
    """IPv4 that is mapped into IPv6 as IPv4."""
    if family == socket.AF_INET6 and raw.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(family, raw)
