"""The addresses of a host's name, with a deadline: name servers can hang."""

import socket
from collections.abc import Callable

from gpudoctor.knowledge.shapes import HIDDEN
from gpudoctor.read.system import attempt, within
from gpudoctor.snapshot import Reading, read

LONGEST = 253
"""Characters of a name (RFC 1035)."""

Resolver = Callable[[str], list[str]]


def by_getaddrinfo(name: str) -> list[str]:
    """Raises `OSError`, `UnicodeError`."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]


def look_up(name: str, patience: float, resolver: Resolver) -> Reading[tuple[str, ...]]:
    """The addresses of a name; () when there is no such name. That no name server answered is a time-out."""
    source = f"getaddrinfo {name[:LONGEST]}"
    if HIDDEN in name:
        return read(source, ())  # no host's name looks so, and a name server is told none of it

    def addresses() -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(within(patience, source, lambda: resolver(name))))
        except socket.gaierror as error:
            if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
                return ()
            if error.errno == socket.EAI_AGAIN:
                raise TimeoutError(f"no name server answered ({error.strerror})") from None
            raise OSError(error.errno, f"the name could not be looked up: {error.strerror}") from None
        except (UnicodeError, ValueError):  # IDNA cannot encode it, or it holds a zero byte: nothing has such a name
            return ()

    return attempt(source, addresses)
