"""Which address of each node the ranks will use, predicted by the rules of NCCL and gloo, and what is wrong with it."""

import difflib
import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gpudoctor.command import Command, command
from gpudoctor.fleet.majority import parties
from gpudoctor.fleet.names import folded, have
from gpudoctor.knowledge.job import is_loopback
from gpudoctor.knowledge.nccl import interfaces as nccl_interfaces
from gpudoctor.knowledge.nccl.settings import effective, set_text, where
from gpudoctor.knowledge.network import gloo_interface
from gpudoctor.knowledge.network.interface_roles import has_address, inside_reason, recommended, seen
from gpudoctor.knowledge.wording import listed
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import Nodes, of
from gpudoctor.snapshot import Interface, NotRead, Snapshot

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Taken(Struct, frozen=True):
    """The interface and address that the backend takes on a node; empty when it finds none."""

    interface: str = ""
    address: str = ""
    rule: str = ""
    """Why, as a phrase; or why it is not known."""
    is_known: bool = True


def taken(snapshot: Snapshot, backend: str) -> Taken:
    """What NCCL's bootstrap, or gloo, takes on this machine."""
    try:
        if backend == "gloo":
            gloo = gloo_interface.gloo_choice(snapshot)
            return Taken(gloo.interface, gloo.address, gloo.rule)
        nccl = nccl_interfaces.nccl_choice(snapshot)
        return Taken(nccl.first, nccl.first_address, nccl.first_rule)
    except NotRead as reason:
        return Taken(rule=str(reason), is_known=False)


def networks(snapshot: Snapshot) -> dict[Network, str]:
    """The networks that other nodes may share with this machine, with its address in each."""
    node_by_network: dict[Network, str] = {}
    every = snapshot.network.interfaces.value_or(())
    for interface in every:
        if not interface.is_up or inside_reason(interface, every):
            continue
        for address in interface.addresses:
            if address.scope == "global" and (network := _network(address.address, address.prefix_length)):
                node_by_network.setdefault(network, address.address)
    return node_by_network


def _network(address: str, prefix_length: int) -> Network | None:
    try:
        return ipaddress.ip_interface(f"{address.partition('%')[0]}/{prefix_length}").network
    except ValueError:
        return None


def network_of(snapshot: Snapshot, address: str) -> Network | None:
    """The network that an address of this machine is in."""
    for interface in snapshot.network.interfaces.value_or(()):
        for own in interface.addresses:
            if own.address == address:
                return _network(own.address, own.prefix_length)
    return None


def reachable_addresses(nodes: Nodes, choices: Mapping[str, Taken]) -> dict[str, str]:
    """An address of each node for the others: what the backend takes, else the one in the network most nodes share.

    "" where nothing is known. Never a loopback address, nor one that means another place on every node (fe80::).
    """
    shares = Counter(network for snapshot in nodes.snapshots.values() for network in networks(snapshot))
    by_node = {}
    for name, snapshot in nodes.snapshots.items():
        choice = choices[name].address
        if choice and not is_loopback(choice) and "%" not in choice and not choice.lower().startswith("fe80"):
            by_node[name] = choice
            continue
        own = networks(snapshot)
        # Of equally common networks, the one behind the default route.
        best = recommended(snapshot) if snapshot.network.interfaces.is_read else None
        preferred = {address.address for address in best.addresses} if best else set()
        ordered = sorted(own, key=lambda network: (-shares[network], own[network] not in preferred, network.version))
        by_node[name] = own[ordered[0]] if ordered else ""
    return by_node


# --- findings -----------------------------------------------------------------------------------------------------


def address_findings(nodes: Nodes, choices: Mapping[str, Taken]) -> Iterator[Finding]:
    """What can be said before anything is tried."""
    missing = tuple(_interface_missing(nodes))
    yield from missing
    known_bad = {node for found in missing for node in found.nodes}
    if nodes.are_apart:
        yield from _loopback(nodes, {name: choice for name, choice in choices.items() if name not in known_bad})
        yield from _mtu(nodes, choices)


def _interface_missing(nodes: Nodes) -> Iterator[Finding]:
    variable = gloo_interface.IFNAME if nodes.backend == "gloo" else nccl_interfaces.IFNAME
    lacking: dict[str, tuple[str, str]] = {}
    for name, snapshot in nodes.snapshots.items():
        try:
            interfaces = snapshot.network.interfaces.value
            if nodes.backend == "gloo":
                value, origin = snapshot.environment.value.get(variable, ""), ""
                fails = bool(gloo_interface.listed(value)) and not gloo_interface.gloo_choice(snapshot).address
            else:
                settings = effective(snapshot)
                value = set_text(settings, variable)
                origin = where(settings[variable]) if variable in settings else ""
                pattern = nccl_interfaces.parse(value)
                fails = nccl_interfaces.is_set(value) and not any(
                    pattern.takes(interface.name) for interface in interfaces
                )
        except NotRead:
            continue
        if fails:
            lacking[name] = (value, origin)
    for party in parties({name: (*each, _usable(nodes, name)) for name, each in lacking.items()}):
        value, origin, here = party.value
        wanted = value.lstrip("^=").split(",")[0]
        alike = difflib.get_close_matches(wanted.strip(), here, n=1)
        everywhere = set.intersection(*(set(_usable(nodes, name)) for name in nodes.snapshots))
        common = next((each for each in _usable(nodes, nodes.head) if each in everywhere), "")
        names = party.nodes
        hint = f"Did you mean {alike[0]}? " if alike else ""
        best = (alike[0] if alike and (alike[0] in everywhere or len(names) == 1) else "") or common
        if best:
            fix = f"{hint}{have(nodes.snapshots)} {best}: name it" if best in everywhere else f"{hint}Name it"
        else:
            fix = f"{hint}No interface name is on all nodes: name what to leave out instead, as in ^docker,lo"
        yield finding(
            "socket-interface-missing",
            "error",
            f"{variable}{origin} is {value!r}, and {folded(names)} {'has' if len(names) == 1 else 'have'} no such "
            f"interface with an address; there {'is' if len(here) == 1 else 'are'} {listed(here) or 'none'}",
            meaning=f"{'gloo' if nodes.backend == 'gloo' else 'NCCL'} ends with an error on "
            f"{'this node' if len(names) == 1 else 'these nodes'}; the others wait until their time-out.",
            fix=f"{fix}, or leave the variable unset.",
            commands=(command("gpudoctor nccl-test --interface {:interface}", best),)
            if best
            else (command("unset {:variable}", variable),),
            evidence=tuple(of(name, seen(nodes.snapshots[name], *here)) for name in names[:3]),
            nodes=names,
        )


def _usable(nodes: Nodes, name: str) -> tuple[str, ...]:
    """Names of the interfaces that other nodes may be behind, or all that have an address."""
    every = nodes.snapshots[name].network.interfaces.value_or(()) if name else ()
    outside = tuple(
        interface.name for interface in every if has_address(interface) and not inside_reason(interface, every)
    )
    return outside or tuple(interface.name for interface in every)


def _loopback(nodes: Nodes, choices: Mapping[str, Taken]) -> Iterator[Finding]:
    """gloo (its own hostname) or NCCL (nothing else found) would listen where no other node gets to."""
    on_loopback = {name: choice for name, choice in choices.items() if choice.is_known and _is_useless(choice)}
    for rule, names in _by_rule(on_loopback).items():
        example = on_loopback[names[0]]
        commands: list[Command] = []
        best = [recommended(nodes.snapshots[name]) for name in names]
        common = {interface.name for interface in best if interface}
        if len(common) == 1 and all(best):
            commands.append(command("gpudoctor nccl-test --interface {:interface}", min(common)))
        commands += [nodes.on(name, command("gpudoctor check hostname-loopback")) for name in names[:3]]
        backend = "gloo" if nodes.backend == "gloo" else "NCCL"
        yield finding(
            "hostname-loopback" if backend == "gloo" else "socket-interface-loopback",
            "error",
            f"{backend} on {folded(names)} would listen at {example.address or 'no address'}: {rule}",
            meaning="No other node gets there: all ranks wait for one another until their time-out.",
            fix="For this test, name the interface that the other nodes are behind. For good, export "
            f"{gloo_interface.IFNAME if backend == 'gloo' else nccl_interfaces.IFNAME} in the job"
            + (", or give its own name its real address in /etc/hosts or DNS." if backend == "gloo" else "."),
            commands=tuple(commands),
            evidence=tuple(
                of(name, nodes.snapshots[name].host.hostname_addresses)
                if backend == "gloo"
                else of(name, nodes.snapshots[name].network.interfaces)
                for name in names[:3]
            ),
            nodes=names,
        )


def _by_rule(found: Mapping[str, Taken]) -> dict[str, tuple[str, ...]]:
    """One finding for nodes of one rule; a rule that names the node counts as the same where the address is."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, each in found.items():
        kind = "own hostname" if "own hostname" in each.rule else each.rule
        groups.setdefault((kind, each.address), []).append(name)
    return {
        found[names[0]].rule if len(names) == 1 else _plural(found[names[0]]): tuple(names) for names in groups.values()
    }


def _plural(choice: Taken) -> str:
    if "own hostname" not in choice.rule:
        return choice.rule
    nowhere = "resolves to no address" in choice.rule
    return "its own hostname resolves to " + ("no address of the node" if nowhere else f"{choice.address}")


def _is_useless(choice: Taken) -> bool:
    return not choice.address or is_loopback(choice.address)


def _mtu(nodes: Nodes, choices: Mapping[str, Taken]) -> Iterator[Finding]:
    sizes: dict[str, int] = {}
    for name, choice in choices.items():
        interface = interface_of(nodes.snapshots[name], choice.interface)
        if interface is not None and interface.mtu and interface.kind != "loopback":
            sizes[name] = interface.mtu
    camps = parties(sizes)
    if len(camps) < 2:
        return
    other = tuple(node for party in camps[1:] for node in party.nodes)
    words = ", ".join(
        f"{choices[party.nodes[0]].interface} of {folded(party.nodes)} has MTU {party.value}"
        for party in [*reversed(camps[1:4]), camps[0]]
    )
    yield finding(
        "mtu-mismatch",
        "warning",
        words,
        meaning="TCP goes by the smaller one and is slower. With RoCE the two ends may fail to connect, and a network "
        "that carries only the smaller one drops what is larger.",
        fix=f"Give {folded(other)} the MTU of the others where the switches carry it, and make it last in the "
        "network's configuration.",
        commands=tuple(
            nodes.on(
                name, command("sudo ip link set {:interface} mtu {:number}", choices[name].interface, camps[0].value)
            )
            for name in other[:4]
        ),
        evidence=tuple(
            of(party.nodes[0], seen(nodes.snapshots[party.nodes[0]], choices[party.nodes[0]].interface))
            for party in camps[:4]
        ),
        nodes=other,
    )


def interface_of(snapshot: Snapshot, name: str) -> Interface | None:
    """An interface by name; None when it is not there or not read."""
    interfaces: Sequence[Interface] = snapshot.network.interfaces.value_or(())
    return next((interface for interface in interfaces if interface.name == name), None)
