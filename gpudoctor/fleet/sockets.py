"""To whom a process has been trying to connect without an answer: sockets in SYN_SENT, from /proc (Linux)."""

import socket
import sys

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
    own = inodes(pid)
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
        if len(words) > 9 and words[3] == SYN_SENT and (found_end := end(words[2])):
            address, port = found_end
            found.append((words[9], f"[{address}]:{port}" if ":" in address else f"{address}:{port}"))
    return found


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


def inodes(pid: int) -> set[str]:
    """The inodes of its sockets; none where they may not be read."""
    found = set()
    folder = PROC / str(pid) / "fd"
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
