"""What `gpudoctor env` suggests for TCP: NCCL's interfaces, gloo's, and NCCL's sockets on a fast network.

Sources: NCCL's user guide (env.rst, 2.30) for the syntax of NCCL_SOCKET_IFNAME and for 4 threads x 4 sockets on a
generic 100G network; src/transport/net_socket.cc for the vendors whose defaults NCCL knows; knowledge/nccl_interfaces
and knowledge/gloo_interface for what each takes by itself.
"""

from collections.abc import Iterator

from gpudoctor.knowledge.nccl.interfaces import IFNAME, nccl_choice
from gpudoctor.knowledge.nccl.settings import effective, set_text
from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.network.gloo_interface import gloo_choice
from gpudoctor.knowledge.suggest.advice import Suggestion
from gpudoctor.knowledge.suggest.situation import real_interfaces
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import Interface, NotRead, Snapshot, missing

FASTER = 2
"""An interface at most half as fast as the fastest only slows NCCL down, which spreads data evenly over all (our rule
of thumb; NCCL knows no weights for sockets)."""
SOCKET_NUMBERS = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
FAST_MBPS = 100_000
"""From where NVIDIA's documentation names other numbers of sockets than one."""
TUNED_DRIVERS = ("ena", "gve")
"""Drivers of Amazon's and Google's NICs, for which NCCL has its own numbers (2 x 8 and 4 x 1)."""


def socket_interface(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """NCCL_SOCKET_IFNAME, where the interfaces that NCCL takes lead nowhere or slow it down. Raises `NotRead`."""
    if not several:
        return
    choice, real = nccl_choice(machine), real_interfaces(machine)
    over_tcp = data_over_sockets(machine)
    if choice.is_blocked or (choice.by_communicator[0] and not over_tcp):
        return  # no name of an interface helps against NCCL_COMM_ID
    used = choice.names if over_tcp else choice.names[:1]
    reachable = {interface.name for interface in real}
    strays = [name for name in used if name not in reachable]
    is_set = bool(set_text(effective(machine), IFNAME))
    if used and not strays and (not over_tcp or is_set or not _slow(real, used)):
        return
    if not real:
        raise NotRead(missing("network.interfaces", "no interface has an address that other nodes could reach"))
    wanted = _fastest(real) if over_tcp else real[:1]
    names = ",".join(interface.name for interface in wanted)
    yield Suggestion(
        IFNAME,
        f"={names}",
        f"{_what_nccl_takes(choice.names, used, strays, over_tcp, real)} {_what_is_right(wanted, machine)}",
        "NCCL 2.5 and later ('=' for exact names; without it, eth1 also means eth10)",
        f'NCCL_DEBUG=INFO logs "Bootstrap" with {wanted[0].name}'
        + (f', and "NET/Socket : Using" with {names}' if over_tcp else "")
        + "; the other nodes need it too, under the names that their interfaces have",
    )


def _what_nccl_takes(
    names: tuple[str, ...], used: tuple[str, ...], strays: list[str], over_tcp: bool, real: tuple[Interface, ...]
) -> str:
    if not names:
        return "NCCL finds no interface as things are set."
    purpose = "for its data" if over_tcp else "to connect its ranks"
    if strays:
        return (
            f"NCCL would use {listed(used)} {purpose}, and {listed(strays)} "
            f"{'is' if len(strays) == 1 else 'are'} no way to other nodes (virtual, down or without an address)."
        )
    slow = _slow(real, used)
    return (
        f"NCCL would spread its data evenly over {listed(used)}, so that {listed(slow)} "
        f"{'sets' if len(slow) == 1 else 'set'} the pace."
    )


def _what_is_right(wanted: tuple[Interface, ...], machine: Snapshot) -> str:
    return f"{listed(map(_described, wanted))} {'leads' if len(wanted) == 1 else 'lead'} out of this machine."


def _described(interface: Interface) -> str:
    address = next((address.address for address in interface.addresses if address.scope == "global"), "")
    speed = f", {_speed(interface) / 1000:g} Gb/s" if _speed(interface) else ""
    return f"{interface.name} ({address}{speed})"


def _fastest(real: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """Those worth spreading data over; only the best where a speed is unknown, for then nobody can compare."""
    if not all(map(_speed, real)):
        return real[:1]
    slow = _slow(real, tuple(interface.name for interface in real))
    return tuple(interface for interface in real if interface.name not in slow)


def _slow(real: tuple[Interface, ...], used: tuple[str, ...]) -> list[str]:
    """Those in use that are at most half as fast as the fastest; none where a speed is unknown."""
    speeds = {interface.name: _speed(interface) for interface in real if interface.name in used}
    if not speeds or not all(speeds.values()):
        return []
    fastest = max(speeds.values())
    return [name for name, speed in speeds.items() if speed * FASTER <= fastest]


def _speed(interface: Interface) -> int:
    """Mb/s; 0 where the kernel does not say (or says -1)."""
    return max(0, interface.speed_mbps or 0)


def gloo_interface(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """GLOO_SOCKET_IFNAME, where its own hostname leads to an address that no other node reaches. Raises `NotRead`."""
    if not several:
        return
    choice, real = gloo_choice(machine), real_interfaces(machine)
    names = [interface.name for interface in real]
    if choice.interface in names:
        return
    if not real:
        raise NotRead(missing("network.interfaces", "no interface has an address that other nodes could reach"))
    seen = f"gloo would listen on {choice.address}" if choice.address else "gloo finds no address to listen on"
    yield Suggestion(
        "GLOO_SOCKET_IFNAME",
        _for_gloo(machine, real).name,
        f"{seen}, because {choice.rule}; ranks on other nodes cannot connect to that. PyTorch's CPU groups use gloo, "
        "also beside NCCL.",
        "every PyTorch version (an exact name: gloo knows neither prefixes nor '=')",
        "torch.distributed.init_process_group('gloo') returns on every node; TORCH_CPP_LOG_LEVEL=INFO logs more",
    )


def _for_gloo(machine: Snapshot, real: tuple[Interface, ...]) -> Interface:
    """The one that NCCL connects its ranks over where that is a real one, so that both use one network."""
    try:
        first = nccl_choice(machine).first
    except NotRead:
        first = ""
    return next((interface for interface in real if interface.name == first), real[0])


def socket_threads(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """More sockets, where data goes over TCP on a network that one socket cannot fill. Raises `NotRead`."""
    if not several or not data_over_sockets(machine):
        return
    used = nccl_choice(machine).names
    real = [
        real_interface
        for real_interface in real_interfaces(machine)
        if real_interface.name in used and real_interface.driver not in TUNED_DRIVERS
    ]
    fast = [interface for interface in real if _speed(interface) >= FAST_MBPS]
    if not fast or any(set_text(effective(machine), name) for name in SOCKET_NUMBERS):
        return
    seen = (
        f"NCCL's data goes over TCP on {listed(map(_described, fast))}, with one thread and one socket for each "
        "connection, which does not fill such a link. NVIDIA's documentation names 4 threads and 4 sockets for 100G "
        "networks; it costs CPU time, and on one such cluster it made things slower: measure both."
    )
    verify = "all_reduce over two nodes at 1 GiB is faster with it than without"
    for name in SOCKET_NUMBERS:
        yield Suggestion(name, "4", seen, "NCCL 2.4.8 and later", verify)
        seen = "Goes with NCCL_SOCKET_NTHREADS; the product of both is at most 64."
