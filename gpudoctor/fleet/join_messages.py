"""What the two sides of join mode tell each other besides orders and replies, and what both know."""

import contextlib
import hashlib
import socket
from pathlib import Path

from msgspec import Struct


class Newcomer(Struct, frozen=True):
    """What a joiner says of itself, once it has proved that it knows the token."""

    machine: str
    """Equal for the same host as seen by a program: see `machine_identity`."""
    hostname: str
    gpudoctor: str = ""
    protocol: int = 0


class Welcome(Struct, frozen=True):
    """The head's answer: the place in the fleet, or why there is none."""

    node: int = -1
    nodes: int = 0
    refused: str = ""


class Verdict(Struct, frozen=True):
    """The head's last word."""

    status: int


def machine_identity() -> str:
    """A digest that is the same for two processes on one host, and another in each container with its own network.

    Of the boot (/proc/sys/kernel/random/boot_id), the hostname and the network namespace.
    """
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/net"):
        with contextlib.suppress(OSError):
            parts.append(str(Path(path).readlink()) if "/ns/" in path else Path(path).read_text("ascii").strip())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def with_port(address: str, port: int) -> str:
    """ "10.0.0.1:61234", "[fd00::1]:61234"."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
