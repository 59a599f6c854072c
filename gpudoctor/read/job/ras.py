"""NCCL's RAS: one rank of a job answers for all of them, over a line protocol on a socket of its node (NCCL 2.24 on).

It counts the collectives that each rank has launched, not those that have ended, and knows no stacks: a second opinion
beside the ranks' own evidence, and the only one on ranks of nodes that cannot be reached.
"""

import contextlib
import socket
import time
from collections.abc import Mapping

from gpudoctor.read.job.ras_text import UnreadableRas, parse
from gpudoctor.snapshot.ras import Ras

DEFAULT_HOST = "localhost"
DEFAULT_PORT = 28028
FIRST = (2, 24)
SAFE_DURING_INIT = (2, 27, 3)
"""Before it a question during communicator init crashed jobs (nccl#1669, nccl#1718; fixed by that release's notes)."""
MOST_BYTES = 16 * 1024 * 1024
"""Of a report; a rank of a communicator takes some 200."""
LONGEST_LINE = 4096
COLLECTION = 3
"""Seconds that RAS may wait for a silent process, twice; its default is 5."""


class NoRas(Exception):
    """RAS gave no report. The text says why, as a phrase."""


def address(environment: Mapping[str, str]) -> tuple[str, int]:
    """Where the RAS of a rank listens, by its environment: NCCL_RAS_ADDR, "host:port" or "[::1]:port"."""
    text = environment.get("NCCL_RAS_ADDR", "").strip()
    host, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536:
        return host.strip("[]") or DEFAULT_HOST, int(port)
    return DEFAULT_HOST, DEFAULT_PORT


def version_of(text: str) -> tuple[int, ...]:
    """ "2.27.3+cuda12.9" -> (2, 27, 3); () when it is no version."""
    numbers: list[int] = []
    for part in text.partition("+")[0].partition("-")[0].split("."):
        if not (part.isascii() and part.isdigit() and len(part) < 6):
            break
        numbers.append(int(part))
    return tuple(numbers[:3])


def may_ask(nccl_version: str, *, in_init: bool, environment: Mapping[str, str]) -> str:
    """Why RAS must not be asked, as a phrase; empty when it may.

    `in_init`: a rank of the job is making a communicator, or it is not known that none does.
    """
    if environment.get("NCCL_RAS_ENABLE", "").strip() == "0":
        return "NCCL_RAS_ENABLE=0 has turned it off"
    version = version_of(nccl_version)
    if not version:
        return "the version of NCCL is not known, and before 2.24 there is no RAS"
    if version < FIRST:
        return f"NCCL {nccl_version} has no RAS; it came with 2.24"
    if in_init and version < SAFE_DURING_INIT:
        return f"a rank may be making a communicator, and a question then can crash NCCL {nccl_version} (before 2.27.3)"
    return ""


def ask(address: str = DEFAULT_HOST, port: int = DEFAULT_PORT, *, timeout: float = 8.0) -> Ras:
    """Ask once, and wait at most `timeout` seconds for the whole report. Raises `NoRas`, nothing else."""
    deadline = time.monotonic() + timeout
    source = f"RAS at {address}:{port}"
    try:
        with socket.create_connection((address, port), timeout=min(2.0, timeout)) as connection:
            channel = _Channel(connection, deadline)
            channel.send("CLIENT PROTOCOL 2")
            if not channel.line().upper().startswith("SERVER PROTOCOL"):
                raise NoRas("what listens there is not NCCL's RAS")
            channel.send(f"TIMEOUT {COLLECTION}")
            channel.line()
            channel.send("SET FORMAT json")
            channel.line()  # an older one does not know the command, and goes on in text
            channel.send("VERBOSE STATUS")
            raw = channel.rest()
    except NoRas:
        raise
    except TimeoutError:
        raise NoRas(f"no answer within {timeout:.0f} s") from None
    except (ConnectionResetError, BrokenPipeError):
        raise NoRas("it closed the connection") from None
    except ConnectionRefusedError:
        raise NoRas(f"nothing listens on {address}:{port}") from None
    except (OSError, UnicodeError, OverflowError, ValueError) as error:
        raise NoRas(str(getattr(error, "strerror", None) or error)) from None
    try:
        return parse(raw, time.time(), source)
    except UnreadableRas as error:
        raise NoRas(str(error)) from None


class _Channel:
    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self.connection = connection
        self.deadline = deadline
        self.received = bytearray()

    def send(self, line: str) -> None:
        self.connection.settimeout(self.left())
        self.connection.sendall(line.encode() + b"\n")

    def left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def more(self) -> bool:
        self.connection.settimeout(self.left())
        chunk = self.connection.recv(1 << 16)
        self.received += chunk
        return bool(chunk)

    def line(self) -> str:
        while b"\n" not in self.received:
            if len(self.received) > LONGEST_LINE:
                raise NoRas("what listens there is not NCCL's RAS")
            if not self.more():
                raise NoRas("it closed the connection")
        line, _, rest = bytes(self.received).partition(b"\n")
        self.received[:] = rest
        return line.decode("utf-8", "replace").strip()

    def rest(self) -> bytes:
        """The report: until the other end closes."""
        with contextlib.suppress(ConnectionResetError):
            while self.more():
                if len(self.received) > MOST_BYTES:
                    raise NoRas(f"it wrote more than {MOST_BYTES // 1024 // 1024} MiB")
        if not self.received:
            raise NoRas("it closed the connection without a report")
        return bytes(self.received)
