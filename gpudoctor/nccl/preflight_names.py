"""What the nodes make of the head's name, and of their own."""

from collections.abc import Iterator, Mapping

from gpudoctor.check import Severity
from gpudoctor.command import command
from gpudoctor.fleet.majority import parties
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.job import is_loopback
from gpudoctor.knowledge.wording import listed
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import Nodes, of
from gpudoctor.snapshot import read


def is_address(text: str) -> bool:
    """Whether this is an address and no name."""
    return ":" in text or all(part.isdigit() for part in text.split("."))


def name_findings(
    nodes: Nodes, name: str, resolved: Mapping[str, tuple[str, ...]], *, is_used: bool
) -> Iterator[Finding]:
    """`resolved`: what each node's resolver says of the head's name; `is_used`: --master-addr is that name.

    A name that is used must resolve everywhere, on a single node too; one that got no answer in time does not.
    """
    if not name or is_address(name) or not (nodes.are_apart or is_used):
        return
    severity: Severity = "error" if is_used else "warning"
    meaning = (
        ("Their ranks cannot" if nodes.are_apart else "The ranks cannot")
        + " find the rendezvous"
        + (
            "; the others wait for them until their time-out."
            if nodes.are_apart
            else ", and wait until their time-out."
        )
        if is_used
        else "This test goes by the head's address. A launch that names the head (torchrun --rdzv-endpoint, "
        "MASTER_ADDR) fails on them, or waits."
    )
    silent = tuple(node for node in nodes.snapshots if node not in resolved) if is_used else ()
    lost = tuple(node for node, addresses in resolved.items() if not addresses) + silent
    address = _own_address(nodes)
    if lost:
        line = command("echo {:host} {:host} | sudo tee -a /etc/hosts", address, name)
        yield finding(
            "master-addr-unresolvable",
            severity,
            f"The head's name {name} does not resolve on {folded(lost)}"
            + (f"; on {folded(silent)} the look-up did not end in time" if silent else ""),
            meaning=meaning,
            fix="Put the name into DNS or /etc/hosts there"
            + (f", or pass --master-addr {address}." if address and is_used else "."),
            commands=tuple(nodes.on(node, line) for node in lost[:3]) if address else (),
            evidence=tuple(
                read(f"{node}: getaddrinfo {name}", "no answer in time" if node in silent else ()) for node in lost[:4]
            ),
            nodes=lost,
        )
    if not nodes.are_apart:
        return
    # Its order may differ (round robin), and the head itself often has its own name at a loopback address.
    sets = {node: tuple(sorted(addresses_of)) for node, addresses_of in resolved.items() if addresses_of}
    elsewhere = {
        node: found
        for node, found in sets.items()
        if node != nodes.head or not all(is_loopback(each) for each in found)
    }
    camps = parties(elsewhere)
    wrong = {
        node: addresses for node, addresses in elsewhere.items() if node != nodes.head and is_loopback(addresses[0])
    }
    if wrong:
        yield finding(
            "master-addr-loopback",
            severity,
            f"The head's name {name} resolves to {listed(next(iter(wrong.values())), 2)} on {folded(wrong)}, "
            "which is each node itself",
            meaning="Each of them looks for the rendezvous on itself, finds nobody and waits until its time-out."
            if is_used
            else "A launch that names the head looks for it on each of these nodes itself, and waits.",
            fix="Correct the name in /etc/hosts or DNS there.",
            commands=tuple(
                nodes.on(node, command("getent ahosts {:host}; grep -n {:host} /etc/hosts", name, name))
                for node in list(wrong)[:3]
            ),
            evidence=tuple(read(f"{node}: getaddrinfo {name}", each) for node, each in list(wrong.items())[:4]),
            nodes=tuple(wrong),
        )
    elif len(camps) > 1 and not set.intersection(*(set(party.value) for party in camps)):
        other = tuple(node for party in camps[1:] for node in party.nodes)
        yield finding(
            "head-resolves-differently",
            severity,
            f"The head's name {name} is {listed(camps[0].value, 2)} on {folded(camps[0].nodes)}, and "
            + ", ".join(f"{listed(party.value, 2)} on {folded(party.nodes)}" for party in camps[1:3]),
            meaning="Some of the nodes look for the head at another machine or network than the others.",
            fix="Correct the name in /etc/hosts or DNS, or name the head by its address"
            + (f": --master-addr {address}." if address else "."),
            commands=tuple(nodes.on(node, command("getent ahosts {:host}", name)) for node in other[:3]),
            evidence=tuple(read(f"{party.nodes[0]}: getaddrinfo {name}", party.value) for party in camps[:3]),
            nodes=other,
        )


def _own_address(nodes: Nodes) -> str:
    from gpudoctor.knowledge.network.interface_roles import recommended

    if not nodes.head or not nodes.snapshots[nodes.head].network.interfaces.is_read:
        return ""
    interface = recommended(nodes.snapshots[nodes.head])
    return (
        next((address.address for address in interface.addresses if address.scope == "global"), "") if interface else ""
    )


def loopback_hostname_findings(nodes: Nodes) -> Iterator[Finding]:
    """Nodes whose own name is a loopback address. Where gloo would listen there, `preflight_addresses` says so."""
    if not nodes.are_apart or nodes.backend == "gloo":
        return
    local = {
        name: addresses[0]
        for name, addresses in nodes.values(lambda snapshot: snapshot.host.hostname_addresses.value).items()
        if addresses and is_loopback(addresses[0])
    }
    if local:
        names = tuple(local)
        yield finding(
            "hostname-loopback",
            "info",
            f"The node's own hostname resolves to a loopback address on {folded(names)} ({next(iter(local.values()))})",
            meaning="NCCL does not mind. gloo and torchrun's c10d rendezvous would wait until their time-out.",
            fix="Give the name the node's real address in /etc/hosts; `gpudoctor check hostname-loopback` there has "
            "the lines.",
            commands=tuple(nodes.on(name, command("gpudoctor check hostname-loopback")) for name in names[:3]),
            evidence=tuple(of(name, nodes.snapshots[name].host.hostname_addresses) for name in names[:4]),
            nodes=names,
        )
