"""MASTER_ADDR and MASTER_PORT, tried out: the name is looked up; here, who listens; elsewhere, one TCP connection.

The connection is closed as soon as it stands; nothing is sent over it.
"""

import errno
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from gpudoctor.knowledge.environment import kept_value
from gpudoctor.knowledge.job import is_loopback
from gpudoctor.read.names import LONGEST, Resolver, by_getaddrinfo, look_up
from gpudoctor.read.process import open_files, processes
from gpudoctor.read.reader import reader
from gpudoctor.read.sockets import SocketRow, rows
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Reading, Rendezvous, absent, missing, read

ADDRESS, PORT = "MASTER_ADDR", "MASTER_PORT"
CONNECT_SECONDS = 3.0
"""A connection inside a cluster takes milliseconds; the kernel repeats a lost first packet after 1 s."""
SHORTEST_CONNECT_SECONDS = 0.5
SEVERAL = 4
"""Addresses of one name that are tried."""

UNREACHABLE = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
)

Connector = Callable[[str, int, float], str]


@reader("rendezvous", "network.rendezvous")
def read_rendezvous(
    system: System,
    resolver: Resolver = by_getaddrinfo,
    is_own: Callable[[str], bool] | None = None,
    connector: Connector | None = None,
) -> Reading[Rendezvous]:
    """Absent when MASTER_ADDR is not set."""
    source = f"environment, {ADDRESS} and {PORT}"
    address = kept_value(ADDRESS, system.environment.get(ADDRESS, "").strip())
    if not address:
        return absent(source, f"{ADDRESS} is not set")
    started = time.monotonic()
    port = port_number(system.environment.get(PORT, ""))
    resolved = look_up(address, system.patience, resolver)
    local = _is_local(resolved, is_own or can_be_bound)
    left = system.patience - (time.monotonic() - started)
    return read(
        source,
        Rendezvous(
            address=address[:LONGEST],
            port=port,
            resolved=resolved,
            is_local=local,
            listener=_listener(system, resolved, local, port),
            connection=_connection(resolved, local, port, left, connector or connect),
            proxies=proxies_for(address, system.environment),
        ),
    )


PROXIES = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy")
"""What gRPC's C core (the first three) and HTTP clients read, in either case."""


def proxies_for(address: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the proxy variables that apply to an address. Their values may hold passwords and are not kept."""
    wanted = [name for name in environment if name.lower() in PROXIES and environment[name].strip()]
    # urllib has the same rule, but importing it costs the readers more time than all of this.
    exceptions = ",".join(environment.get(name, "") for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy")).split(",")
    host = address.lower()
    for entry in (entry.strip().lower().lstrip(".") for entry in exceptions):
        if entry and (entry in ("*", host) or host.endswith(f".{entry}")):
            return ()
    return tuple(sorted(wanted))


def port_number(text: str) -> int | None:
    """A TCP port, as int() of torch's rendezvous takes it; None for anything else."""
    text = text.strip()
    return int(text) if re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 65536 else None


def can_be_bound(address: str) -> bool:
    """Whether an address is this machine's: only such can be bound to. Nothing listens, the socket is closed."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            trying.bind((address, 0))
    except OSError:
        return False
    return True


def _is_local(resolved: Reading[tuple[str, ...]], is_own: Callable[[str], bool]) -> Reading[bool]:
    source = "bind"
    if not resolved.is_read:
        return missing(source, f"the address is not known: {resolved.reason}", resolved.missing_kind or "failed")
    if not resolved.value:
        return absent(source, "the name resolves to nothing")
    return read(source, any(is_loopback(address) or is_own(address) for address in resolved.value))


# --- here: who listens --------------------------------------------------------------------------------------------


def _listener(
    system: System, resolved: Reading[tuple[str, ...]], local: Reading[bool], port: int | None
) -> Reading[str]:
    source = "/proc/net/tcp, /proc/net/tcp6"
    if port is None:
        return absent(source, f"{PORT} is not set to a port")
    if not local.is_read:
        return missing(source, local.reason, local.missing_kind or "failed")
    if not local.value:
        return absent(source, f"{ADDRESS} is another machine")
    return attempt(source, lambda: who_listens(system, port, frozenset(resolved.value)), must_exist=True)


def who_listens(system: System, port: int, addresses: frozenset[str] | None) -> str:
    """ "pid 123 python"; "" for nobody. Raises `OSError`.

    A socket in the way is bound to one of the addresses (None: whichever), or to all that there are.
    """
    listening = list(_listening(system.text("/proc/net/tcp"), port, addresses))
    with suppress(FileNotFoundError):  # a kernel without IPv6
        listening += _listening(system.text("/proc/net/tcp6"), port, addresses)
    if not listening:
        return ""
    for process in processes(system):
        if f"socket:[{listening[0].inode}]" in open_files(system, process.pid):
            return f"pid {process.pid} {process.name}"
    return f"a process of user id {listening[0].user} that is not visible here"


def _listening(text: str, port: int, addresses: frozenset[str] | None) -> Iterator[SocketRow]:
    """Listening sockets on the port, in /proc/net/tcp's form."""
    for row in rows(text):
        ours = addresses is None or row.local in ("0.0.0.0", "::") or row.local in addresses
        if ours and row.state == "LISTEN" and row.local_port == port and row.inode.isdigit():
            yield row


# --- elsewhere: one connection ------------------------------------------------------------------------------------


def _connection(
    resolved: Reading[tuple[str, ...]],
    local: Reading[bool],
    port: int | None,
    seconds: float,
    connector: Connector,
) -> Reading[str]:
    source = "connect"
    if port is None:
        return absent(source, f"{PORT} is not set to a port")
    if not local.is_read:
        return missing(source, local.reason, local.missing_kind or "failed")
    if local.value:
        return absent(source, f"{ADDRESS} is this machine")
    addresses = resolved.value[:SEVERAL]
    seconds_each = max(SHORTEST_CONNECT_SECONDS, min(CONNECT_SECONDS, seconds)) / len(addresses)

    def answer() -> str:
        answers: list[str] = []
        for address in addresses:
            answers.append(connector(address, port, seconds_each))
            if answers[-1] == "accepted":
                break
        # The answer that says most: an open port, then a machine that answers at all.
        return min(answers, key=("accepted", "refused", "no answer", "unreachable").index)

    return attempt(f"connect {addresses[0]} port {port}", answer)


def connect(address: str, port: int, seconds: float) -> str:
    """ "accepted", "refused", "unreachable" or "no answer" within so many seconds. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            trying.settimeout(seconds)
            trying.connect((address, port))
    except TimeoutError:  # ours, and the kernel's ETIMEDOUT
        return "no answer"
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        if error.errno in UNREACHABLE:
            return "unreachable"
        raise
    return "accepted"
