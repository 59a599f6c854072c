"""MASTER_PORT: free on the head now, and outside what the kernel hands out to clients."""

import random
import socket
from typing import NamedTuple

from gpudoctor.snapshot import Snapshot

FIRST, LAST = 61000, 65535
"""Above Linux's default ip_local_port_range, 32768 to 60999."""
LOWEST_UNPRIVILEGED = 1024
TRIES = 64


class NoPort(ValueError):
    """No port can be used; the message is one line for the user."""


class ChosenPort(NamedTuple):
    """A port and why it is the one."""

    port: int
    why: str


def is_free(port: int) -> bool:
    """Whether a server could listen there, on every address, as TCPStore does: a bind of the wildcard address."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind((address, port))
                trial.listen(1)
        except OSError:
            if family == socket.AF_INET6:
                continue  # perhaps only a kernel without IPv6: the other family decides
            return False
    return True


def choose(machine: Snapshot | None, here: bool, wanted: int = 0, job: str = "") -> ChosenPort:
    """The port for a head whose snapshot is given. `here`: the head is this machine, where ports can be tried.

    `job`: what the job is known by. Of one job everybody draws the same ports in the same order, so that plans which
    are made on several nodes meet. Raises `NoPort`.
    """
    first, last = _range(machine)
    handed_out = f"{first}-{last}, from which the kernel hands out ports to clients"
    if wanted:
        return ChosenPort(wanted, _of_wanted(wanted, machine, here, first, last))
    candidates = [port for port in range(FIRST, LAST + 1) if not first <= port <= last]
    if not candidates:
        candidates = [port for port in range(LOWEST_UNPRIVILEGED, LAST + 1) if not first <= port <= last]
    if not candidates:
        raise NoPort(f"every port from 1024 on is in {handed_out}; give --master-port")
    for port in random.Random(job).sample(candidates, min(TRIES, len(candidates))):
        if not here or is_free(port):
            free = "free on this machine now" if here else "not tried on the head from here"
            return ChosenPort(port, f"{free}, and outside {handed_out}")
    raise NoPort(f"{TRIES} ports from {FIRST} on were tried and all are taken; give --master-port")


def _of_wanted(wanted: int, machine: Snapshot | None, here: bool, first: int, last: int) -> str:
    if here and not is_free(wanted):
        is_root = machine is not None and machine.host.is_root.value_or(False)
        if wanted < LOWEST_UNPRIVILEGED and not is_root:
            raise NoPort(f"--master-port {wanted}: ports below 1024 are root's; {FIRST}-{LAST} are for everybody")
        raise NoPort(f"--master-port {wanted}: in use on this machine (`ss -tlnp 'sport = :{wanted}'` shows by whom)")
    why = "as asked for" + (", and free on this machine now" if here else "")
    if first <= wanted <= last:
        why += f"; it is in {first}-{last}, from which the kernel hands out ports to clients: it may be taken by then"
    return why


def _range(machine: Snapshot | None) -> tuple[int, int]:
    if machine is None:
        return 32768, 60999
    return machine.network.ephemeral_ports.value_or(None) or (32768, 60999)
