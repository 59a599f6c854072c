"""Ranks that have met at the master and do not reach one another: interfaces, firewalls, connections that went dead."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from gpudoctor.causes import CAUSES
from gpudoctor.command import command
from gpudoctor.hang.addresses import Owner, interface_of, is_loopback, is_private, owners, plain, routable
from gpudoctor.hang.causes import HangRule
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import is_before_training, processes, starts_of
from gpudoctor.hang.words import blame, process_of, ranks_of, verb, without
from gpudoctor.knowledge.wording import counted, listed, size
from gpudoctor.launcher.told import number
from gpudoctor.snapshot.evidence import NodeEvidence, ProcessEvidence, Socket
from gpudoctor.sure import POSSIBLE, PROVED, SEEN

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


class Connection(NamedTuple):
    """A connection that a rank tries to make, or has made, to another process of its job."""

    node: NodeEvidence
    rank: Rank | None
    evidence: ProcessEvidence
    socket: Socket

    @property
    def source(self) -> str:
        return process_of(self.rank) if self.rank is not None else f"pid {self.evidence.pid} on {self.node.host}"

    @property
    def remote(self) -> str:
        return plain(self.socket.remote)

    def seen(self, state: str) -> Seen:
        """A line of evidence."""
        to = f"{self.remote}:{self.socket.remote_port}"
        return Seen(self.source, f"{state} to {to}, {self.socket.retransmits} retransmits")


def _connections(job: HangJob, *states: str) -> list[Connection]:
    return [
        Connection(node, rank, evidence, socket)
        for node, evidence, rank in processes(job)
        for socket in evidence.sockets
        if socket.state in states and socket.remote
    ]


def _master_ports(job: HangJob) -> set[int]:
    return {port for port in (job.master_port, *(start.port for start in starts_of(job))) if port}


def ranks_do_not_connect(job: HangJob) -> Iterator[HangCause]:
    """SYN_SENT from rank to rank, away from the master's port: a wrong interface, or a firewall between."""
    masters = _master_ports(job)
    blocked = [
        attempt
        for attempt in _connections(job, "SYN_SENT")
        if attempt.rank is not None
        and attempt.socket.remote_port not in masters
        and _waits(attempt.rank)
        and _is_between_ranks(job, attempt)
    ]
    if blocked:
        told_interfaces = _told_interfaces(job)
        unfit = [attempt for attempt in blocked if _is_unfit(job, attempt, told_interfaces)]
        yield _wrong_interface(job, unfit) if unfit else _firewall(job, blocked)


def _is_between_ranks(job: HangJob, connection: Connection) -> bool:
    """Whether the far end may be a rank: a program also talks to services (metrics, downloads), which may be blocked.

    Ranks listen on ports of the kernel's choice, on nodes of the job; a node that was not seen is known by its network.
    """
    if min(connection.socket.remote_port, connection.socket.local_port) < UNPRIVILEGED:
        return False
    remote = connection.remote
    if any(True for _ in owners(job.evidence.nodes, remote)) or is_loopback(remote):
        return True
    return is_private(remote) and (bool(job.missing) or bool(job.evidence.lost) or _is_bridge(remote))


def _waits(rank: Rank) -> bool:
    return rank.place.kind in WAITING or rank.place.kind == "unknown"


def _is_unfit(job: HangJob, attempt: Connection, told_interfaces: Mapping[str, set[str]]) -> bool:
    """The address cannot lead from one node to another: virtual, several nodes' own, or off the nodes' common way."""
    ends = list(owners(job.evidence.nodes, attempt.remote))
    if is_loopback(attempt.remote) or _is_bridge(attempt.remote) or len({owner.node.host for owner in ends}) > 1:
        return True
    return any(owner.is_virtual or _is_singular(owner, told_interfaces) for owner in ends)


def _is_bridge(address: str) -> bool:
    """docker0's and libvirt's addresses as they come (172.17.0.1, 192.168.122.1)."""
    return address.startswith(("172.17.", "192.168.122."))


def _told_interfaces(job: HangJob) -> dict[str, set[str]]:
    """What the ranks of each node were told of interfaces, by the node's name."""
    by_host: dict[str, set[str]] = {}
    for rank in job.ranks:
        values = (rank.environment.get(variable) for variable in IFNAMES)
        by_host.setdefault(rank.node.host, set()).update(value for value in values if value)
    return by_host


def _is_singular(owner: Owner, told_interfaces: Mapping[str, set[str]]) -> bool:
    """The owner's ranks were told an interface of another name than the ranks of the other nodes."""
    own = told_interfaces.get(owner.node.host, set())
    if not any(owner.interface in value.lstrip("^=").split(",") for value in own):
        return False
    others = [value for host, value in told_interfaces.items() if host != owner.node.host]
    return bool(others) and all(value != own for value in others)


def _wrong_interface(job: HangJob, unfit: Sequence[Connection]) -> HangCause:
    remote = unfit[0].remote
    ends = [owner for attempt in unfit for owner in owners(job.evidence.nodes, attempt.remote)]
    strays = _listening(job, unfit) or [
        rank for owner in ends[:1] for rank in job.ranks if rank.node.host == owner.node.host
    ]
    hosts = list(dict.fromkeys(rank.node.host for rank in strays)) or [owner.node.host for owner in ends[:1]]
    interface = ends[0].interface if ends else "lo" if is_loopback(remote) else "a virtual interface"
    variable, value = _named(strays)
    others = without(job.ranks, strays)
    right = _right_interface(strays, others, variable or IFNAMES[0])
    evidence = [attempt.seen("SYN_SENT") for attempt in unfit[:6]]
    if variable:
        evidence.append(Seen(f"{ranks_of(strays)} environment", f"{variable}={value}; {_others_say(others, variable)}"))
    evidence += [Seen(f"node {owner.node.host}", f"{remote} is its {owner.interface}") for owner in ends[:3]]
    why = f", as {variable}={value} says" if variable else ""
    names = ((variable,) if variable else IFNAMES) if right else ()
    return blame(
        "wrong-nic",
        PROVED if variable or ends else SEEN,  # whose address that is
        strays,
        f"{ranks_of(strays) if strays else 'a rank'} on {listed(hosts) if hosts else 'an unknown node'} takes "
        f"{interface} ({remote}){why}, which {ranks_of(attempt.rank for attempt in unfit if attempt.rank)} cannot "
        "reach",
        evidence,
        fix=CAUSES["wrong-nic"].remedy(
            "known",
            *(command("export {:variable}={:interface}", name, right) for name in names),
            interface=f": {right} there" if right else "",
        ),
        confirm="`ip -brief address` on each node shows whose address that is.",
    )


def _listening(job: HangJob, attempts: Sequence[Connection]) -> list[Rank]:
    """The ranks that wait for these connections."""
    addresses = {attempt.remote for attempt in attempts}
    ports = {attempt.socket.remote_port for attempt in attempts}
    return [
        rank
        for rank in job.ranks
        if any(
            socket.state == "LISTEN" and socket.local_port in ports and plain(socket.local) in addresses
            for socket in rank.evidence.sockets
        )
    ]


def _named(ranks: Sequence[Rank]) -> tuple[str, str]:
    """The variable that names an interface, and its value."""
    set_ones = ((name, rank.environment.get(name, "")) for rank in ranks for name in IFNAMES)
    return next(((name, value) for name, value in set_ones if value), ("", ""))


def _others_say(others: Sequence[Rank], variable: str) -> str:
    values = dict.fromkeys(rank.environment.get(variable, "not set") for rank in others)
    return f"{listed(values)} on the others" if values else "no other rank was seen"


def _right_interface(strays: Sequence[Rank], others: Sequence[Rank], variable: str) -> str:
    """Of the stray's node: what the others were told, where it has that; else the one with a routable address."""
    if not strays:
        return ""
    node = strays[0].node
    names = {interface.name for interface in node.interfaces if interface.up and interface.addresses}
    for rank in others:
        value = rank.environment.get(variable, "")
        if value in names and value != "lo":
            return value
    address = routable(node)
    return interface_of(node, address) if address else ""


def _firewall(job: HangJob, blocked: Sequence[Connection]) -> HangCause:
    ends = (owner for attempt in blocked for owner in owners(job.evidence.nodes, attempt.remote))
    targets = list(dict.fromkeys(owner.node.host for owner in ends))
    listening = _listening(job, blocked)
    evidence = [attempt.seen("SYN_SENT") for attempt in blocked[:8]]
    evidence += [Seen(process_of(rank), "LISTEN there: it waits for this connection") for rank in listening[:4]]
    masters = _master_ports(job)
    to_master = (one for one in _connections(job, "ESTABLISHED") if one.socket.remote_port in masters)
    evidence += [one.seen("ESTABLISHED") for one in islice(to_master, 1)]
    hosts = listed(targets) if targets else blocked[0].remote
    sources = listed(sorted({attempt.node.host for attempt in blocked}))
    ports = listed(map(str, sorted({attempt.socket.remote_port for attempt in blocked})), 3)
    lines = [command("sudo nft list ruleset | grep -n -e drop -e reject")]
    own = routable(blocked[0].node)
    if "." in own:  # this one node, and no more of its network
        lines.append(command("sudo iptables -I INPUT -s {:host} -p tcp -j ACCEPT", own))
    tried = any(attempt.socket.retransmits > 0 for attempt in blocked)
    return blame(
        "firewall-ephemeral-ports",
        # The kernel has sent it again, to somebody who is there; else it may have begun this moment.
        PROVED if tried and (listening or targets) else SEEN,
        [rank for rank in job.ranks if rank.node.host in targets],
        f"{ranks_of(attempt.rank for attempt in blocked if attempt.rank)} on {sources} gets no answer from {hosts} on "
        f"port {ports}, while the master's port works: packets are dropped",
        evidence,
        fix=CAUSES["firewall-ephemeral-ports"].remedy("ranks", *lines, hosts=hosts),
        confirm="Listen on a free high port on that node and connect from the other: "
        "`python3 -m http.server 45000` there, `timeout 3 bash -c '</dev/tcp/ADDRESS/45000'` here.",
    )


def loopback_is_advertised(job: HangJob) -> Iterator[HangCause]:
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
    ranks = [rank for rank, _ in local]
    explicit = any("lo" in rank.environment.get(IFNAMES[0], "").split(",") for rank in ranks)
    nodes = {rank.node.host: rank.node for rank in ranks}
    node = ranks[0].node
    own = tuple(map(plain, node.resolved.get(node.hostname, ())))
    by_name = bool(own) and is_loopback(own[0])
    evidence = [
        Seen(process_of(rank), f"LISTEN on {plain(socket.local)}:{socket.local_port}") for rank, socket in local[:6]
    ]
    for host, other in nodes.items():
        if leads_to := other.resolved.get(other.hostname):
            evidence.append(Seen(f"node {host}", f"hostname {other.hostname} resolves to {listed(leads_to)}"))
    interface = interface_of(node, routable(node)) if routable(node) else ""
    lines = [command("export GLOO_SOCKET_IFNAME={:interface}", interface)] if interface else []
    if by_name and routable(node):
        lines.append(command("getent hosts $(hostname); grep -n '^127' /etc/hosts"))
    if explicit:
        cause, why = "wrong-nic", "because GLOO_SOCKET_IFNAME names lo"
        fix = CAUSES[cause].remedy("known", *lines, interface=f": {interface} there" if interface else "")
    else:
        cause, why = "master-addr-loopback", "which leads to its own node only"
        why = f"what the hostname {node.hostname} resolves to" if by_name else why
        named = f": {interface}" if interface else ""
        fix = CAUSES[cause].remedy("hostname", *lines, hosts=listed(nodes), interface=named)
    yield blame(
        cause,
        PROVED if explicit or by_name else SEEN,  # and why it takes that address
        ranks,
        f"{ranks_of(ranks)} on {listed(nodes)} {verb(ranks, 'listens', 'listen')} on {plain(local[0][1].local)}, "
        f"{why}; ranks on other nodes cannot connect to that",
        evidence,
        fix=fix,
        confirm=f"`getent hosts $(hostname)` on {node.host}.",
    )


def _is_over_nodes(job: HangJob, ranks: Sequence[Rank]) -> bool:
    """Ranks on two nodes were seen, or there are more ranks than those of one node: the others may have ended."""
    if len({rank.node.host for rank in job.ranks}) > 1:
        return True
    if any((start.fewest_nodes or 0) > 1 for start in starts_of(job)):
        return True
    return (number(ranks[0].environment.get("GROUP_WORLD_SIZE")) or 1) > 1


def dead_connections(job: HangJob) -> list[Connection]:
    """Established connections between ranks whose data is not acknowledged."""
    return [
        one
        for one in _connections(job, "ESTABLISHED", "FIN_WAIT1", "LAST_ACK", "CLOSING")
        if one.socket.retransmits >= DEAD_AFTER
        and one.socket.unsent_bytes > 0
        and not is_loopback(one.remote)
        and _is_between_ranks(job, one)
    ]


def connections_are_dead(job: HangJob) -> Iterator[HangCause]:
    """The way between ranks was closed in mid-run."""
    dead = dead_connections(job)
    if not dead or (dead[0].rank is not None and dead[0].rank.moved and not _waits(dead[0].rank)):
        return
    ends: dict[str, list[Socket]] = {}
    touched: Counter[str] = Counter()
    for one in dead:
        ends.setdefault(one.remote, []).append(one.socket)
        far = {owner.node.host for owner in owners(job.evidence.nodes, one.remote)} or {one.remote}
        touched.update({one.node.host, *far})
    remote, sockets = max(ends.items(), key=lambda item: len(item[1]))
    hosts = {owner.node.host for owner in owners(job.evidence.nodes, remote)}
    # What all of them have in common is to blame; with two nodes, that is both.
    most = max(touched.values())
    common = sorted(host for host, count in touched.items() if count == most)
    apart = sorted(set(touched) - set(common)) or common
    way = f"between {listed(common)}" if apart == common else f"of {listed(apart)} with {listed(common)}"
    masters = _master_ports(job)
    to_master = all(masters & {socket.remote_port, socket.local_port} for socket in sockets)
    ports = sorted({port for socket in sockets for port in (socket.remote_port, socket.local_port)})
    yield blame(
        "firewall-ephemeral-ports",
        # Ranks were seen to live at its other end; else the host may be gone.
        PROVED if any(rank.node.host in hosts for rank in job.ranks) else POSSIBLE,
        [rank for rank in job.ranks if rank.node.host in common],
        f"{counted(len(dead), 'connection')} {way} {verb(dead, 'is', 'are')} dead: data is sent again and again and "
        f"not acknowledged{' (the connections of the store)' if to_master else ''}",
        [unacknowledged(one) for one in dead[:8]],
        fix=CAUSES["firewall-ephemeral-ports"].remedy(
            "went dead", command("ss -tino dst {:host}", remote), command("ping -c 3 {:host}", remote), way=way
        ),
        confirm=f"Whether {remote} is still there: the second line, and a look at that host. If it is gone, that is "
        f"the cause, and the job has lost its ranks there. Ports in question: {listed(map(str, ports[:4]))}.",
    )


def unacknowledged(one: Connection) -> Seen:
    socket = one.socket
    ends = f"{plain(socket.local)}:{socket.local_port} -> {one.remote}:{socket.remote_port}"
    unsent = size(socket.unsent_bytes)
    return Seen(one.source, f"ESTABLISHED {ends}: {unsent} not acknowledged, {socket.retransmits} retransmits")


RULES: tuple[HangRule, ...] = (ranks_do_not_connect, loopback_is_advertised, connections_are_dead)
