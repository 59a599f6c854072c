"""Connections between nodes that failed, and a rendezvous that not all have reached."""

import ipaddress
from collections.abc import Iterator, Mapping

from gpudoctor.causes import CAUSES
from gpudoctor.command import Command, command
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.network.gloo_interface import gloo_choice
from gpudoctor.lazy import lazy_re
from gpudoctor.nccl import story
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot import NotRead, Reading, Snapshot, read

_FAILED = lazy_re(r"(?P<how>Connection refused|Connection timed out|No route to host|Network is unreachable|timed out)")
"""What an attempt to connect says. A connection that is reset or closed was there before: its peer has ended."""
_ADDRESS = lazy_re(
    r"\[(?P<a>[0-9a-fA-F.:]{2,45})\]:(?P<ap>\d{1,5})|\((?P<b>[\w.:-]{1,253}), (?P<bp>\d{1,5})\)|"
    r"(?P<c>\d{1,3}(?:\.\d{1,3}){3})[<:](?P<cp>\d{1,5})"
)
RULES_OF_FILTERS = command("sudo nft list ruleset; sudo iptables -S")


class Attempt:
    """A connection that one node could not make."""

    def __init__(self, node: str, address: str, port: int, how: str, evidence: Reading[str], rank: int | None) -> None:
        self.node, self.address, self.port, self.how = node, address, port, how
        self.evidence, self.rank = evidence, rank


def between_nodes(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Nodes that could not connect to others, by the other end."""
    owners = _owners(snapshots)
    by_target: dict[str, list[Attempt]] = {}
    for attempt in _attempts(run):
        if _is_loopback(attempt.address):
            key = "loopback" if len(run.nodes) > 1 else attempt.address
        else:
            key = owners.get(attempt.address, attempt.address)
        by_target.setdefault(key, []).append(attempt)
    for target, attempts in by_target.items():
        if target == "loopback":
            yield _loopback(attempts, run, snapshots)
        else:
            yield _unreachable(target, attempts, run)
    if not by_target and len(run.nodes) > 1:
        yield from _mesh(run)


def _mesh(run: RunResult) -> Iterator[Finding]:
    """gloo's ranks connect each to each, and some could not; gloo does not say which (torch 2.13)."""
    some = [rank for rank in story.ranks(run) if "connectFullMesh" in rank.state.error]
    if some:
        where = story.nodes_of(some)
        yield story.blamed(
            "firewall-ephemeral-ports",
            f"{story.rank_names(some)} on {folded(where)} could not connect to all others",
            run,
            where,
            story.numbers_of(some),
            meaning="They had found each other through the store, so the first node's port is reached; the ports of "
            "the kernel's choice that gloo's ranks listen on are not, in one direction at least.",
            commands=[story.on(node, RULES_OF_FILTERS, run) for node in run.nodes[:2]],
            evidence=[story.error_reading(some[0])],
        )


def _attempts(run: RunResult) -> Iterator[Attempt]:
    for end in run.ends:
        yield from _in_text(end.node, end.error, f"torchrun on {end.node}", None)
        for state in end.ranks:
            yield from _in_text(end.node, state.error, f"error of rank {state.rank} on {end.node}", state.rank)


def _in_text(node: str, text: str, source: str, rank: int | None) -> Iterator[Attempt]:
    for line in text.splitlines():
        failed, match = _FAILED.search(line), _ADDRESS.search(line)
        if (failed or "connectFullMesh" in line) and match:
            address = match["a"] or match["b"] or match["c"]
            port = int(match["ap"] or match["bp"] or match["cp"])
            how = (failed["how"] if failed else "no connection").removeprefix("Connection ")
            yield Attempt(node, address, port, "no answer" if how == "timed out" else how, read(source, line), rank)


def _owners(snapshots: Mapping[str, Snapshot]) -> dict[str, str]:
    """Which node has an address, of those that only one has; hostnames too."""
    owners: dict[str, set[str]] = {}
    for node, machine in snapshots.items():
        owners.setdefault(node, set()).add(node)
        for interface in machine.network.interfaces.value_or(()):
            for address in interface.addresses:
                owners.setdefault(address.address.partition("%")[0], set()).add(node)
    return {address: next(iter(nodes)) for address, nodes in owners.items() if len(nodes) == 1}


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _unreachable(target: str, attempts: list[Attempt], run: RunResult) -> Finding:
    sources = tuple(dict.fromkeys(attempt.node for attempt in attempts))
    first = attempts[0]
    place = f"{first.address} port {first.port}"
    if target in run.nodes:
        place = f"{target} at {place}"
    refused = any("refused" in attempt.how for attempt in attempts)
    unrouted = all(attempt.how == "Network is unreachable" for attempt in attempts)
    meaning = (
        "That machine answers, and nothing listens there: the process that should has ended or not begun, the address "
        "belongs to another machine, or a firewall refuses. "
        if refused
        else "This node has no route to that network: it is routing, and no firewall. "
        if unrouted
        else "Nothing answers there: a firewall drops what is sent, no route leads there, or that machine is down. "
    )
    some = [rank for rank in story.ranks(run) if rank.state.rank in {attempt.rank for attempt in attempts}]
    commands = [story.on(first.node, command("ip route get {:address}", first.address), run)]
    if target in run.nodes:
        commands.append(story.on(target, RULES_OF_FILTERS, run))
    # torchrun connects to the store and to nothing else; ranks that have met there, to each other.
    cause = "master-unreachable" if any(attempt.rank is None for attempt in attempts) else "firewall-ephemeral-ports"
    if unrouted and cause == "firewall-ephemeral-ports":
        cause = "wrong-nic"
    return story.blamed(
        cause,
        f"{folded(sources)} could not connect to {place}: {first.how}",
        run,
        tuple(dict.fromkeys((*sources, *([target] if target in run.nodes else ())))),
        sorted({attempt.rank for attempt in attempts if attempt.rank is not None}),
        meaning=f"{meaning}{story.others(run, some)}",
        commands=commands,
        evidence=[attempt.evidence for attempt in attempts[:4]],
    )


def _loopback(attempts: list[Attempt], run: RunResult, snapshots: Mapping[str, Snapshot]) -> Finding:
    advertisers: list[str] = []
    evidence: list[Reading[object]] = [attempt.evidence for attempt in attempts[:3]]
    for node in run.nodes:
        machine = snapshots.get(node)
        try:
            if machine is not None and _is_loopback(gloo_choice(machine).address):
                advertisers.append(node)
                evidence.append(machine.host.hostname_addresses)
        except NotRead:
            continue
    who = folded(advertisers)
    first = attempts[0]
    summary = f"{first.node} was told to connect to {first.address} port {first.port}, which is {first.node} itself"
    if who:
        summary += f"; the hostname of {who} resolves to a loopback address there"
    on = advertisers[0] if advertisers else first.node
    return story.blamed(
        "master-addr-loopback",
        summary,
        run,
        tuple(dict.fromkeys((*advertisers, *(attempt.node for attempt in attempts)))),
        sorted({attempt.rank for attempt in attempts if attempt.rank is not None}),
        meaning="A process told the others to find it at an address that every machine takes for its own. gloo "
        "takes the address that its own hostname resolves to; some distributions map that to 127.0.1.1.",
        commands=[story.on(on, command('getent ahosts "$(hostname)"'), run), _interface(snapshots.get(on))],
        evidence=evidence,
    )


def _interface(machine: Snapshot | None) -> Command:
    interfaces = machine.network.interfaces.value_or(()) if machine is not None else ()
    usable = [
        interface.name
        for interface in interfaces
        if interface.kind != "loopback" and interface.is_up and interface.addresses
    ]
    if not usable:
        return command("ip -brief address")
    return command("gpudoctor nccl-test --interface {:interface}", usable[0])


_WAITED = lazy_re(r"waiting for clients|timed out .*connect|DistStoreError|DistNetworkError")


def rendezvous(run: RunResult, snapshots: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """A world that never came together: nodes without a single rank, or errors that say so."""
    empty = [end for end in run.ends if not end.ranks]
    arrived = [end.node for end in run.ends if end.ranks]
    if not empty:
        return
    waited = [end for end in run.ends if _WAITED.search(end.error)]
    nodes = [end.node for end in empty]
    if arrived:
        summary = f"torchrun on {folded(nodes)} never started its ranks; {folded(arrived)} did"
    else:
        summary = f"no rank was started on any of the nodes {folded(nodes)}: torchrun got no rendezvous"
        if len(nodes) == 1:
            summary = f"torchrun on {nodes[0]} never started its ranks"
    incomplete = CAUSES["rendezvous-incomplete"]
    lines = (*(story.on(nodes[0], line, run) for line in incomplete.fix.commands), *_reach(waited, run))
    yield story.blamed(incomplete.id, summary, run, nodes, commands=lines, evidence=_launchers(empty))


def _reach(nodes_told: list[NodeRanks], run: RunResult) -> tuple[Command, ...]:
    for end in nodes_told:
        if match := _ADDRESS.search(end.error):
            address = match["a"] or match["b"] or match["c"]
            return (
                story.on(
                    end.node,
                    command("ip route get {:address}", address) or command("getent ahosts {:host}", address),
                    run,
                ),
            )
    return ()


def _launchers(ends: list[NodeRanks]) -> Iterator[Reading[str]]:
    for end in ends[:4]:
        if end.error:
            yield story.launcher_reading(end)
        elif end.evidence is not None:
            for process in end.evidence.processes:
                yield read(f"torchrun on {end.node}", f"pid {process.pid}, state {process.state}")
        else:
            yield read(f"torchrun on {end.node}", f"{end.how}, and it said nothing")
