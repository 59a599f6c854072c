"""Ranks that have met at the master and do not reach one another: interfaces, firewalls, connections that went dead."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.hang.addresses import Owner, interface_of, is_loopback, is_private, owners, plain, routable
from gpudoctor.hang.causes import Rule
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import is_before_training, name, number, processes, told
from gpudoctor.knowledge.wording import counted, listed, ranges, size
from gpudoctor.snapshot.evidence import NodeEvidence, ProcessEvidence, Socket

IFNAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
DEAD_AFTER = 3
"""Retransmits of one packet before a connection counts as dead: with Linux's timer that starts at 0.2 s and doubles,
the third is sent after 1.4 s, which no packet that was only late takes (our rule of thumb)."""
UNPRIVILEGED = 1024
"""Ports below are services'; the kernel gives none of them out by itself."""
WAITING = (
    "communicator init",
    "collective",
    "point-to-point",
    "backward",
    "store wait",
    "cuda sync",
    "rendezvous",
    "exit",
)


class Attempt(NamedTuple):
    """A connection that a rank tries to make, or has made, to another process of its job."""

    node: NodeEvidence
    rank: Rank | None
    evidence: ProcessEvidence
    socket: Socket

    @property
    def source(self) -> str:
        who = f"rank {self.rank.rank} " if self.rank is not None else ""
        return f"{who}pid {self.evidence.process.pid} on {name(self.node)}"

    @property
    def remote(self) -> str:
        return plain(self.socket.remote)


def _attempts(job: Job, states: Sequence[str]) -> list[Attempt]:
    return [
        Attempt(node, rank, evidence, socket)
        for node, evidence, rank in processes(job)
        for socket in evidence.sockets
        if socket.state in states and socket.remote
    ]


def _master_ports(job: Job) -> set[int]:
    return {each.port for each in told(job) if each.port} | ({job.master_port} if job.master_port else set())


def ranks_do_not_connect(job: Job) -> Iterator[HangCause]:
    """SYN_SENT from rank to rank, away from the master's port: a wrong interface, or a firewall between."""
    masters = _master_ports(job)
    blocked = [
        each
        for each in _attempts(job, ("SYN_SENT",))
        if each.rank is not None
        and each.socket.remote_port not in masters
        and _waits(each.rank)
        and _is_between_ranks(job, each)
    ]
    if not blocked:
        return
    told_interfaces = _told_interfaces(job)
    unfit = [each for each in blocked if _is_unfit(job, each, told_interfaces)]
    if unfit:
        yield _wrong_interface(job, unfit)
        return
    yield _firewall(job, blocked)


def _is_between_ranks(job: Job, each: Attempt) -> bool:
    """Whether the far end may be a rank: a program also talks to services (metrics, downloads), which may be blocked.

    Ranks listen on ports of the kernel's choice, on nodes of the job; a node that was not seen is known by its network.
    """
    if min(each.socket.remote_port, each.socket.local_port) < UNPRIVILEGED:
        return False
    if any(True for _ in owners(job.evidence.nodes, each.remote)) or is_loopback(each.remote):
        return True
    return is_private(each.remote) and (bool(job.missing) or bool(job.evidence.lost) or _is_bridge(each.remote))


def _waits(rank: Rank) -> bool:
    return rank.place.kind in WAITING or rank.place.kind == "unknown"


def _is_unfit(job: Job, each: Attempt, told_interfaces: Mapping[str, set[str]]) -> bool:
    """The address cannot lead from one node to another: virtual, several nodes' own, or off the nodes' common way."""
    found = list(owners(job.evidence.nodes, each.remote))
    if is_loopback(each.remote) or _is_bridge(each.remote) or len({name(owner.node) for owner in found}) > 1:
        return True
    return any(owner.is_virtual or _is_singular(owner, told_interfaces) for owner in found)


def _is_bridge(address: str) -> bool:
    """docker0's and libvirt's addresses as they come (172.17.0.1, 192.168.122.1)."""
    return address.startswith(("172.17.", "192.168.122."))


def _told_interfaces(job: Job) -> dict[str, set[str]]:
    """What the ranks of each node were told of interfaces, by the node's name."""
    found: dict[str, set[str]] = {}
    for rank in job.ranks:
        environment = rank.evidence.process.environment
        found.setdefault(name(rank.node), set()).update(environment[each] for each in IFNAMES if environment.get(each))
    return found


def _is_singular(owner: Owner, told_interfaces: Mapping[str, set[str]]) -> bool:
    """The owner's ranks were told an interface of another name than the ranks of the other nodes."""
    own = told_interfaces.get(name(owner.node), set())
    if not any(owner.interface in value.lstrip("^=").split(",") for value in own):
        return False
    others = [value for host, value in told_interfaces.items() if host != name(owner.node)]
    return bool(others) and all(value != own for value in others)


def _wrong_interface(job: Job, unfit: Sequence[Attempt]) -> HangCause:
    first = unfit[0]
    found = [owner for each in unfit for owner in owners(job.evidence.nodes, each.remote)]
    listening = _listening(job, {each.remote for each in unfit}, {each.socket.remote_port for each in unfit})
    strays = listening or [rank for owner in found[:1] for rank in job.ranks if name(rank.node) == name(owner.node)]
    hosts = list(dict.fromkeys(name(rank.node) for rank in strays)) or [name(owner.node) for owner in found[:1]]
    interface = found[0].interface if found else "lo" if is_loopback(first.remote) else "a virtual interface"
    variable, value = _named(strays)
    chosen = {id(rank) for rank in strays}
    others = [rank for rank in job.ranks if id(rank) not in chosen]
    right = _right_interface(strays, others, variable or IFNAMES[0])
    evidence = [
        Seen(each.source, f"SYN_SENT to {each.remote}:{each.socket.remote_port}, {each.socket.retransmits} retransmits")
        for each in unfit[:6]
    ]
    if variable:
        evidence.append(
            Seen(f"{_ranks_words(strays)} environment", f"{variable}={value}; {_others_say(others, variable)}")
        )
    for owner in found[:3]:
        evidence.append(Seen(f"node {name(owner.node)}", f"{first.remote} is its {owner.interface}"))
    why = f", as {variable}={value} says" if variable else ""
    return HangCause(
        cause="wrong-nic",
        confidence=0.95 if variable or found else 0.85,
        ranks=tuple(sorted({rank.rank for rank in strays})),
        evidence=tuple(evidence),
        summary=f"{_ranks_words(strays) or 'A rank'} on {listed(hosts) if hosts else 'an unknown node'} takes "
        f"{interface} ({first.remote}){why}, which {_ranks_words([each.rank for each in unfit if each.rank]).lower()} "
        "cannot reach",
        fix=Fix(
            "Name the interface that leads to the other nodes"
            + (f": {right} there" if right else "")
            + ", in the environment of every rank of that node, or unset the variable where it is set and not needed.",
            tuple(
                command("export {:variable}={:interface}", each, right)
                for each in ((variable,) if variable else IFNAMES)
                if right
            ),
        ),
        confirm="" if variable or found else "`ip -brief address` on each node shows whose address that is.",
    )


def _listening(job: Job, addresses: set[str], ports: set[int]) -> list[Rank]:
    """The ranks that wait for connections there."""
    return [
        rank
        for rank in job.ranks
        if any(
            socket.state == "LISTEN" and socket.local_port in ports and plain(socket.local) in addresses
            for socket in rank.evidence.sockets
        )
    ]


def _named(ranks: Sequence[Rank]) -> tuple[str, str]:
    for rank in ranks:
        for variable in IFNAMES:
            value = rank.evidence.process.environment.get(variable)
            if value:
                return variable, value
    return "", ""


def _others_say(others: Sequence[Rank], variable: str) -> str:
    values = dict.fromkeys(rank.evidence.process.environment.get(variable, "not set") for rank in others)
    return f"{listed(values)} on the others" if values else "no other rank was seen"


def _right_interface(strays: Sequence[Rank], others: Sequence[Rank], variable: str) -> str:
    """Of the stray's node: what the others were told, where it has that; else the one with a routable address."""
    if not strays:
        return ""
    node = strays[0].node
    names = {interface.name for interface in node.interfaces if interface.up and interface.addresses}
    for rank in others:
        value = rank.evidence.process.environment.get(variable, "")
        if value in names and value != "lo":
            return value
    address = routable(node)
    return interface_of(node, address) if address else ""


def _firewall(job: Job, blocked: Sequence[Attempt]) -> HangCause:
    targets: dict[str, list[Rank]] = {}
    for each in blocked:
        for owner in owners(job.evidence.nodes, each.remote):
            targets.setdefault(name(owner.node), [])
    for rank in job.ranks:
        if name(rank.node) in targets:
            targets[name(rank.node)].append(rank)
    ports = sorted({each.socket.remote_port for each in blocked})
    first = blocked[0]
    tried = any(each.socket.retransmits > 0 for each in blocked)
    listening = _listening(job, {each.remote for each in blocked}, set(ports))
    evidence = [
        Seen(
            each.source,
            f"SYN_SENT to {each.remote}:{each.socket.remote_port}, {each.socket.retransmits} retransmits",
        )
        for each in blocked[:8]
    ]
    evidence += [
        Seen(f"rank {rank.rank} pid {rank.pid} on {name(rank.node)}", "LISTEN there: it waits for this connection")
        for rank in listening[:4]
    ]
    met = [each for each in _attempts(job, ("ESTABLISHED",)) if each.socket.remote_port in _master_ports(job)]
    if met:
        evidence.append(Seen(met[0].source, f"ESTABLISHED to the master {met[0].remote}:{met[0].socket.remote_port}"))
    hosts = listed(targets) if targets else first.remote
    sources = sorted({name(each.node) for each in blocked})
    known = [routable(each.node) for each in blocked[:1]]
    network = f"{known[0].rpartition('.')[0]}.0/24" if known and "." in known[0] else ""
    confidence = 0.95 if tried and (listening or targets) else 0.8
    return HangCause(
        cause="firewall-ephemeral-ports",
        confidence=confidence,
        ranks=tuple(sorted({rank.rank for ranks in targets.values() for rank in ranks})),
        evidence=tuple(evidence),
        summary=f"{_ranks_words([each.rank for each in blocked if each.rank])} on {listed(sources)} gets no answer "
        f"from {hosts} on port {listed(map(str, ports), 3)}, while the master's port works: packets are dropped",
        fix=Fix(
            "Open all ports between the nodes of the job; gloo and NCCL listen on ports of the kernel's choice and "
            f"cannot be held to one. In a cloud, a rule of the security group that allows itself. On {hosts} the "
            "first line shows what is dropped, the second opens it for the nodes' network.",
            (
                command("sudo nft list ruleset | grep -n -e drop -e reject"),
                command("sudo iptables -I INPUT -s {:subnet} -p tcp -j ACCEPT", network),
            )
            if network
            else (command("sudo nft list ruleset | grep -n -e drop -e reject"),),
        ),
        confirm="" if confidence >= 0.9 else "Listen on a free high port on that node and connect from the other: "
        "`python3 -m http.server 45000` there, `timeout 3 bash -c '</dev/tcp/ADDRESS/45000'` here.",
    )  # fmt: skip


def loopback_is_advertised(job: Job) -> Iterator[HangCause]:
    """Several nodes, and a rank in its set-up listens on 127.x only: gloo has taken what its own hostname leads to.

    gloo lets the larger address connect to the smaller: one node with a loopback address among 10.x works, two do not.
    """
    setting_up = [rank for rank in job.ranks if is_before_training(rank)]
    if not setting_up or not _is_over_nodes(job, setting_up):
        return
    masters = _master_ports(job)
    local = [
        (rank, socket)
        for rank in setting_up
        for socket in rank.evidence.sockets
        if socket.state == "LISTEN" and is_loopback(plain(socket.local)) and socket.local_port not in masters
    ]
    if not local:
        return
    explicit = [rank for rank, _ in local if "lo" in rank.evidence.process.environment.get(IFNAMES[0], "").split(",")]
    hosts = list(dict.fromkeys(name(rank.node) for rank, _ in local))
    node = local[0][0].node
    own = tuple(plain(each) for each in node.resolved.get(node.hostname, ()))
    by_name = bool(own) and is_loopback(own[0])
    evidence = [
        Seen(f"rank {rank.rank} pid {rank.pid} on {name(rank.node)}", f"LISTEN on {plain(s.local)}:{s.local_port}")
        for rank, s in local[:6]
    ]
    evidence += [
        Seen(f"node {name(each)}", f"hostname {each.hostname} resolves to {listed(each.resolved[each.hostname])}")
        for each in {name(rank.node): rank.node for rank, _ in local}.values()
        if each.resolved.get(each.hostname)
    ]
    interface = interface_of(node, routable(node)) if routable(node) else ""
    lines = [command("export GLOO_SOCKET_IFNAME={:interface}", interface)] if interface else []
    if by_name and routable(node):
        lines.append(command("getent hosts $(hostname); grep -n '^127' /etc/hosts"))
    yield HangCause(
        cause="wrong-nic" if explicit else "master-addr-loopback",
        confidence=0.93 if explicit or by_name else 0.75,
        ranks=tuple(sorted({rank.rank for rank, _ in local})),
        evidence=tuple(evidence),
        summary=f"{_ranks_words([rank for rank, _ in local])} on {listed(hosts)} listens on "
        f"{plain(local[0][1].local)}, "
        + (
            "because GLOO_SOCKET_IFNAME names lo"
            if explicit
            else f"what the hostname {node.hostname} resolves to"
            if by_name
            else "which leads to its own node only"
        )
        + "; ranks on other nodes cannot connect to that",
        fix=Fix(
            "Let the hostname resolve to the address of the network (the line of 127.0.1.1 in /etc/hosts), or name the "
            f"interface on {listed(hosts)}" + (f": {interface}." if interface else "."),
            tuple(lines if explicit or not by_name else lines[:2]),
        ),
        confirm="" if explicit or by_name else f"`getent hosts $(hostname)` on {hosts[0]}.",
    )


def _is_over_nodes(job: Job, ranks: Sequence[Rank]) -> bool:
    """Ranks on two nodes were seen, or there are more ranks than those of one node: the others may have ended."""
    if len({name(rank.node) for rank in job.ranks}) > 1:
        return True
    if any((each.fewest_nodes or 0) > 1 for each in told(job)):
        return True
    environment = ranks[0].evidence.process.environment
    return (number(environment.get("GROUP_WORLD_SIZE")) or 1) > 1


def connections_are_dead(job: Job) -> Iterator[HangCause]:
    """Established connections between ranks whose data is not acknowledged: the way was closed in mid-run."""
    dead = [
        each
        for each in _attempts(job, ("ESTABLISHED", "FIN_WAIT1", "LAST_ACK", "CLOSING"))
        if each.socket.retransmits >= DEAD_AFTER
        and each.socket.unsent_bytes > 0
        and not is_loopback(each.remote)
        and _is_between_ranks(job, each)
    ]
    if not dead or (dead[0].rank is not None and dead[0].rank.moved and not _waits(dead[0].rank)):
        return
    ends: dict[str, list[Attempt]] = {}
    touched: dict[str, int] = {}
    for each in dead:
        ends.setdefault(each.remote, []).append(each)
        far = {name(owner.node) for owner in owners(job.evidence.nodes, each.remote)} or {each.remote}
        for host in {name(each.node), *far}:
            touched[host] = touched.get(host, 0) + 1
    remote, attempts = max(ends.items(), key=lambda item: len(item[1]))
    found = list(owners(job.evidence.nodes, remote))
    alive = [owner for owner in found if any(name(rank.node) == name(owner.node) for rank in job.ranks)]
    # What all of them have in common is to blame; with two nodes, that is both.
    most = max(touched.values())
    common = sorted(host for host, count in touched.items() if count == most)
    apart = sorted(set(touched) - set(common)) or common
    way = f"between {listed(common)}" if apart == common else f"of {listed(apart)} with {listed(common)}"
    masters = _master_ports(job)
    ports = sorted({each.socket.remote_port for each in attempts} | {each.socket.local_port for each in attempts})
    confidence = 0.92 if alive else 0.5
    to_master = all(each.socket.remote_port in masters or each.socket.local_port in masters for each in attempts)
    yield HangCause(
        cause="firewall-ephemeral-ports",
        confidence=confidence,
        ranks=tuple(sorted({rank.rank for rank in job.ranks if name(rank.node) in common})),
        evidence=tuple(
            Seen(
                each.source,
                f"ESTABLISHED {plain(each.socket.local)}:{each.socket.local_port} -> "
                f"{each.remote}:{each.socket.remote_port}: "
                f"{size(each.socket.unsent_bytes)} not acknowledged, {each.socket.retransmits} retransmits",
            )
            for each in dead[:8]
        ),
        summary=f"{counted(len(dead), 'connection')} {way} "
        f"{'is' if len(dead) == 1 else 'are'} dead: data is sent again and again and not acknowledged"
        + (" (the store's connections)" if to_master else ""),
        meaning="The connection was there and worked; since then packets of it are lost without a word: a "
        "firewall's rule that was changed or that forgot the connection, a cable or switch, a host that has gone. "
        "Both ranks wait, until the kernel gives up after a quarter of an hour or the time-out comes.",
        fix=Fix(
            f"Find what drops the packets {way}: rules that were changed since the job began, "
            "connection tracking that is full or times out idle connections, the link. Then start the job again from "
            "its checkpoint; a dead connection does not come back by itself after a change of addresses.",
            (
                command("ss -tino dst {:host}", remote),
                command("ping -c 3 {:host}", remote),
                command("sudo nft list ruleset | grep -n -e drop -e reject"),
                command("sudo dmesg | grep -i -e conntrack -e 'link is'"),
            ),
        ),
        confirm=""
        if confidence >= 0.9
        else f"Whether {remote} is still there: the second line, and a look at that host. If it is gone, that is "
        f"the cause, and the job has lost its ranks there. Ports in question: {listed(map(str, ports[:4]))}.",
    )  # fmt: skip


def _ranks_words(ranks: Sequence[Rank]) -> str:
    numbers = sorted({rank.rank for rank in ranks})
    return f"{'Rank' if len(numbers) == 1 else 'Ranks'} {ranges(numbers)}" if numbers else ""


RULES: tuple[Rule, ...] = (ranks_do_not_connect, loopback_is_advertised, connections_are_dead)
