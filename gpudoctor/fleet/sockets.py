"""To whom a process has been trying to connect without an answer: sockets in SYN_SENT, from /proc (Linux)."""

import socket
import sys
from pathlib import Path

from gpudoctor.fleet.processes import PROC

SYN_SENT = "02"  # TCP_SYN_SENT of <net/tcp_states.h>
MOST = 8
"""Of one process; a rank of a large world may wait for hundreds."""


def connecting(pid: int) -> tuple[str, ...]:
    """The far ends, "10.0.0.1:29500" or "[fe80::1]:29500", of its connections that nobody has answered yet.

    The kernel leaves this state within a round trip where anyone answers, be it with a refusal: such a connection
    waits for a host that is down, or its packets are dropped on the way.
    """
    folder = PROC / str(pid)
    own = _inodes(folder / "fd")
    found: list[str] = []
    for name in ("tcp", "tcp6"):
        try:
            text = (folder / "net" / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        found += [end for inode, end in unanswered(text) if inode in own]
    return tuple(sorted(set(found))[:MOST])


def unanswered(text: str) -> list[tuple[str, str]]:
    """(inode, far end) of the sockets in SYN_SENT, of /proc/net/tcp or tcp6 (proc(5))."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == SYN_SENT and (end := _end(words[2])):
            found.append((words[9], end))
    return found


def _end(words: str) -> str:
    """An address of these tables, 32-bit words in the machine's byte order, then the port; empty for garbage."""
    digits, _, port = words.partition(":")
    try:
        raw = bytes.fromhex(digits)
        number = int(port, 16)
    except ValueError:
        return ""
    if len(raw) not in (4, 16):
        return ""
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(raw) == 16 and raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    if len(raw) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, raw)}:{number}"
    return f"[{socket.inet_ntop(socket.AF_INET6, raw)}]:{number}"


def _inodes(folder: Path) -> set[str]:
    found = set()
    try:
        for entry in folder.iterdir():
            try:
                target = entry.readlink().name
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass  # gone, or not ours
    return found
