"""What the tried connections say: ports that are closed, ways that are cut, packets that are too large."""

from collections.abc import Iterator, Mapping

from gpudoctor.command import Command, command
from gpudoctor.fleet.messages import Touched
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_addresses import Taken, interface_of, network_of, networks
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.nccl.preflight_pairs import Cut, Pair, cuts
from gpudoctor.snapshot import Reading, read

MOST_NAMED = 4
HANGS_WORDS = (
    "NCCL and gloo listen on ports that the kernel picks (32768-60999 by default): the ranks would wait for one "
    "another until their time-out."
)


def port_findings(
    nodes: Nodes,
    choices: Mapping[str, Taken],
    between: Mapping[Pair, Touched],
    rendezvous: Mapping[str, Touched],
    port: int,
) -> Iterator[Finding]:
    """`between`: every tried connection; `rendezvous`: that of each node to the head's rendezvous port `port`."""
    blocked = {pair: touched for pair, touched in between.items() if touched.outcome not in ("connected", "truncated")}
    apart = {pair for pair in blocked if _are_apart(nodes, choices, pair)}
    if apart:
        yield _apart(nodes, choices, apart, blocked)
    rest = {pair: touched for pair, touched in blocked.items() if pair not in apart}
    apart_by_filter = cuts((pair for pair in between if pair not in apart), rest)
    whole = [cut for cut in apart_by_filter if cut.kind not in ("pair", "one way")]
    for cut in whole:
        yield _whole_nodes(nodes, cut, rest)
    singles = [cut for cut in apart_by_filter if cut.kind in ("pair", "one way")]
    if singles:
        yield _pairs(nodes, singles, rest)
    yield from _rendezvous(nodes, rendezvous, blocked, port)
    lost = {pair: touched for pair, touched in between.items() if touched.outcome == "truncated"}
    if lost:
        yield _large_packets(nodes, choices, between, lost)


def outcome_words(touched: Touched) -> str:
    """What came of a connection and what that tells: our own listener was open at the other end."""
    at = f"{_bracketed(touched.target.address)} port {touched.target.port}"
    if touched.outcome == "no answer":
        return f"no answer from {at}: something drops the packets"
    if touched.outcome == "refused":
        return (
            f"{at} refused, with a listener open there: a packet filter rejects it, or the address is another machine's"
        )
    if touched.outcome == "unreachable":
        return f"{at} is unreachable ({touched.detail})"
    if touched.outcome == "wrong listener":
        return f"{at} is somebody else's ({touched.detail})"
    return f"{at}: {touched.detail or touched.outcome}"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _evidence(pairs: Mapping[Pair, Touched], some: tuple[Pair, ...]) -> tuple[Reading[str], ...]:
    return tuple(_seen(pair[0], pairs[pair]) for pair in some[:MOST_NAMED])


def _seen(node: str, touched: Touched) -> Reading[str]:
    what = touched.outcome + (f" ({touched.detail})" if touched.detail else "")
    return read(f"connect from {node} to {_bracketed(touched.target.address)} port {touched.target.port}", what)


# --- whole nodes and single pairs ---------------------------------------------------------------------------------


def _whole_nodes(nodes: Nodes, cut: Cut, blocked: Mapping[Pair, Touched]) -> Finding:
    who, first = folded(cut.nodes), blocked[cut.failed[0]]
    ssh = nodes.how == "ssh"
    if cut.kind == "everything":
        summary = (
            f"No node reaches any other on the ports that ranks use ({counted(len(cut.failed), 'connection')} tried"
        )
        summary += " between all of them); only ssh gets through" if ssh else " between all of them)"
    elif cut.kind == "into":
        summary = f"{who} cannot be reached from any other node on the ports that ranks use"
        summary += ", by ssh only" if ssh else ""
    elif cut.kind == "out of":
        summary = f"{who} cannot connect to any other node on the ports that ranks use; the others reach it"
    else:
        summary = f"{who} and the other nodes cannot connect to each other, in neither direction"
        summary += "; only ssh gets through" if ssh else ""
    closed = cut.nodes if cut.kind != "out of" else tuple(dict.fromkeys(pair[1] for pair in cut.failed))
    return finding(
        "only-ssh-gets-through" if cut.kind == "everything" and ssh else "ports-blocked-between-nodes",
        "error",
        f"{summary}: {outcome_words(first)}",
        meaning=HANGS_WORDS,
        fix=_fix_words(nodes, cut.nodes if cut.kind == "out of" else closed),
        commands=_commands(nodes, cut.nodes if cut.kind == "out of" else closed),
        evidence=(*_evidence(blocked, cut.failed), *_filters(nodes, cut.nodes)),
        nodes=cut.nodes,
    )


def _pairs(nodes: Nodes, singles: list[Cut], blocked: Mapping[Pair, Touched]) -> Finding:
    words = [
        f"{cut.nodes[0]} and {cut.nodes[1]} cannot connect to each other"
        if cut.kind == "pair"
        else f"{cut.nodes[0]} cannot connect to {cut.nodes[1]}"
        + (f", while {cut.nodes[1]} reaches {cut.nodes[0]}" if len(singles) == 1 else "")
        for cut in singles
    ]
    more = f"; {len(words) - MOST_NAMED} more pairs fail" if len(words) > MOST_NAMED else ""
    concerned = tuple(dict.fromkeys(node for cut in singles for node in cut.nodes))
    closed = tuple(dict.fromkeys(pair[1] for cut in singles for pair in cut.failed))
    return finding(
        "ports-blocked-between-nodes",
        "error",
        f"{'; '.join(words[:MOST_NAMED])}{more}: {outcome_words(blocked[singles[0].failed[0]])}",
        meaning=HANGS_WORDS,
        fix=_fix_words(nodes, closed),
        commands=_commands(nodes, closed),
        evidence=(
            *_evidence(blocked, tuple(pair for cut in singles for pair in cut.failed)),
            *_filters(nodes, closed),
        ),
        nodes=concerned,
    )


def _subnet(nodes: Nodes, closed: tuple[str, ...]) -> str:
    """The network that the nodes share, to be let in: the one that most of them have."""
    shares: dict[str, int] = {}
    for snapshot in nodes.snapshots.values():
        for network in networks(snapshot):
            shares[str(network)] = shares.get(str(network), 0) + 1
    own = {str(network) for node in closed if node in nodes.snapshots for network in networks(nodes.snapshots[node])}
    best = max(own, key=lambda network: shares.get(network, 0), default="")
    return best if shares.get(best, 0) > 1 else ""


def _fix_words(nodes: Nodes, closed: tuple[str, ...]) -> str:
    subnet = _subnet(nodes, closed)
    return (
        f"Let {folded(closed)} take all TCP ports from the nodes of the job{f' ({subnet})' if subnet else ''}. The "
        "first line shows the rules there, the others are for the usual tools. In a cloud it is the security group, in "
        "Kubernetes a NetworkPolicy."
    )


def _commands(nodes: Nodes, closed: tuple[str, ...]) -> tuple[Command, ...]:
    node = closed[0] if closed else nodes.head
    lines = [nodes.on(node, command("sudo nft list ruleset || sudo iptables -S"))]
    if subnet := _subnet(nodes, closed):
        lines.append(
            nodes.on(
                node,
                command(
                    "sudo firewall-cmd --permanent --zone=trusted --add-source={:subnet} && sudo firewall-cmd --reload",
                    subnet,
                ),
            )
        )
        lines.append(nodes.on(node, command("sudo ufw allow from {:subnet}", subnet)))
        if ":" not in subnet:
            lines.append(nodes.on(node, command("sudo iptables -I INPUT -s {:subnet} -p tcp -j ACCEPT", subnet)))
    return tuple(lines)


def _filters(nodes: Nodes, closed: tuple[str, ...]) -> tuple[Reading[str], ...]:
    """Rules that drop, where they were read."""
    filters = []
    for node in closed[:MOST_NAMED]:
        firewalls = nodes.snapshots[node].network.firewalls if node in nodes.snapshots else None
        for firewall in firewalls.value_or(()) if firewalls else ():
            if firewall.drops_input:
                filters.append(read(f"{node}: rules of {firewall.tool} that drop", "; ".join(firewall.rules[:2])))
    return tuple(filters)


# --- interfaces that have no network in common --------------------------------------------------------------------


def _are_apart(nodes: Nodes, choices: Mapping[str, Taken], pair: Pair) -> bool:
    """Whether the interfaces that the backend takes on both ends are in different networks."""
    ends = []
    for node in pair:
        choice = choices.get(node, Taken(is_known=False))
        network = network_of(nodes.snapshots[node], choice.address) if node in nodes.snapshots else None
        if network is None or not choice.address:
            return False
        ends.append(network)
    return ends[0].version == ends[1].version and not ends[0].overlaps(ends[1])


def _apart(nodes: Nodes, choices: Mapping[str, Taken], apart: set[Pair], blocked: Mapping[Pair, Touched]) -> Finding:
    members = tuple(name for name in nodes.snapshots if any(name in pair for pair in apart))
    by_network: dict[str, list[str]] = {}
    for name in members:
        by_network.setdefault(str(network_of(nodes.snapshots[name], choices[name].address)), []).append(name)
    groups = sorted(by_network.values(), key=len)
    words = [
        f"{choices[group[0]].interface} ({choices[group[0]].address}{' ...' if len(group) > 1 else ''}) "
        f"on {folded(group)}"
        for group in groups
    ]
    shared = set.intersection(*(set(networks(nodes.snapshots[name])) for name in members))
    names = {
        interface.name
        for name in members
        for interface in nodes.snapshots[name].network.interfaces.value_or(())
        for address in interface.addresses
        if (network := network_of(nodes.snapshots[name], address.address)) and network in shared
    }
    backend = "gloo" if nodes.backend == "gloo" else "NCCL"
    first = next(pair for pair in blocked if pair in apart)
    one = next(iter(names)) if len(names) == 1 else ""
    return finding(
        "wrong-nic",
        "error",
        f"{backend} takes {listed(words)}: these networks do not reach each other ({outcome_words(blocked[first])})",
        meaning="The ranks would wait for one another until their time-out.",
        fix=(f"All of them have {one} in one network: name it." if one else "")
        or (
            f"They share {listed(map(str, sorted(shared, key=str)))}: name the interface of each node that is in it."
            if shared
            else "Connect the networks by a route, or give the nodes interfaces in one network and name them."
        ),
        commands=(command("gpudoctor nccl-test --interface {:interface}", one),)
        if one
        else (nodes.on(members[0], command("ip -brief address")),),
        evidence=_evidence(blocked, tuple(pair for pair in blocked if pair in apart)),
        nodes=members,
    )


# --- the rendezvous port ------------------------------------------------------------------------------------------


def busy_finding(nodes: Nodes, head: str, port: int, why: str) -> Finding:
    """The port that the user wants is not free on the head."""
    pid = why.partition("pid ")[2].partition(" ")[0]
    in_use = why.startswith("in use")
    return finding(
        "master-port-busy",
        "error",
        f"Port {port} of the head {head} cannot be opened: {why}",
        meaning="torchrun's store cannot start there: all ranks end with an error (EADDRINUSE), or join another job's."
        if in_use
        else "torchrun's store cannot start there: all ranks end with an error.",
        fix="End that process if it is a leftover, or leave --master-port out: a free port is found then."
        if in_use
        else "Leave --master-port out, or name a port from 1024 to 65535.",
        commands=tuple(
            nodes.on(head, line) for line in (command("ss -tlnp {}", f"sport = :{port}"), command("ps -fp {:pid}", pid))
        ),
        evidence=(read(f"{head}: bind port {port}", why),),
        nodes=(head,),
    )


def _rendezvous(
    nodes: Nodes, rendezvous: Mapping[str, Touched], blocked: Mapping[Pair, Touched], port: int
) -> Iterator[Finding]:
    head = nodes.head
    failed = {
        node: touched
        for node, touched in rendezvous.items()
        if touched.outcome not in ("connected", "truncated") and (node, head) not in blocked
    }
    if not failed:
        return
    first = next(iter(failed.values()))
    address = _bracketed(first.target.address)
    names = tuple(failed)
    others = tuple(name for name in names if name != head)
    if head in failed and first.outcome in ("refused", "wrong listener", "unreachable"):
        yield finding(
            "master-addr-elsewhere",
            "error",
            f"The rendezvous address {address} does not lead to {head}, where rank 0 starts: "
            f"{outcome_words(failed[head])}",
            meaning="The store listens on one machine and all ranks look for it on another, until their time-out.",
            fix="Leave --master-addr out, or name an address of the first node.",
            commands=(nodes.on(head, command("ip -brief address")),),
            evidence=tuple(_seen(node, failed[node]) for node in names[:MOST_NAMED]),
            nodes=(head,),
        )
        return
    drop = command("sudo nft list ruleset | grep -n {:number} ; sudo iptables -S | grep -n {:number}", port, port)
    yield finding(
        "master-unreachable",
        "error",
        f"{folded(others or names)} cannot connect to the rendezvous port {port} of {head}, while other ports of it "
        f"are open: {outcome_words(first)}",
        meaning="Their ranks do not get to the rendezvous; all others wait for them until their time-out.",
        fix=f"Open port {port} on {head}, or take another one: --master-port."
        + ("" if first.target.purpose == "knock" else " Without that option a free one from 61000 on is taken."),
        commands=(nodes.on(head, drop), command("gpudoctor nccl-test --master-port 61234")),
        evidence=(*(_seen(node, failed[node]) for node in names[:MOST_NAMED]), *_filters(nodes, (head,))),
        nodes=(head, *others),
    )


# --- packets that are too large -----------------------------------------------------------------------------------


def _large_packets(
    nodes: Nodes, choices: Mapping[str, Taken], between: Mapping[Pair, Touched], lost: Mapping[Pair, Touched]
) -> Finding:
    members = tuple(name for name in nodes.snapshots if any(name in pair for pair in lost))
    mtus = {
        name: interface.mtu
        for name in members
        if (interface := interface_of(nodes.snapshots[name], choices[name].interface)) and interface.mtu
    }
    # Both directions of a connection need large packets, so that a pair is one fault.
    couples = list(dict.fromkeys(tuple(sorted(pair)) for pair in lost))
    everything = len(lost) == len(between) and len(members) > 2
    where = (
        f"all of {folded(members)}"
        if everything
        else listed([f"{one} and {other}" for one, other in couples], MOST_NAMED)
    )
    largest = max(mtus.values(), default=0)
    sizes = sorted(set(mtus.values()))
    configured = f"; their interfaces have MTU {listed(map(str, sizes))}" if sizes else ""
    first_pair, first = next(iter(lost.items()))
    size = max(largest - 28, 1472)  # IPv4's and ICMP's headers
    candidates = tuple(name for name in members if mtus.get(name, 0) > 1500) or members
    return finding(
        "large-packets-lost",
        "error",
        f"Between {where} small packets arrive and large ones do not ({first.detail}){configured}",
        meaning="The ranks meet and then hang in their first large transfer: a switch or tunnel between them carries "
        "only smaller packets, and says nothing.",
        fix="Give the interfaces the MTU that the whole way carries (1500 where in doubt), or set the switches to the "
        "larger one. The first line shows the fault: it gets no answer.",
        commands=(
            nodes.on(first_pair[0], command("ping -c 2 -M do -s {:number} {:host}", size, first.target.address)),
            *(
                nodes.on(name, command("sudo ip link set {:interface} mtu 1500", choices[name].interface))
                for name in candidates[:MOST_NAMED]
                if choices[name].interface
            ),
        ),
        evidence=_evidence(lost, tuple(lost)),
        nodes=members,
    )


def untried_finding(nodes: Nodes, untried: Mapping[str, str]) -> Finding:
    """Ways that could not be tried, by node: never taken for open."""
    return finding(
        "ports-not-tried",
        "warning",
        f"The ways to and from {folded(untried)} could not be tried: {next(iter(untried.values()))}",
        meaning="Whether the ranks of these nodes reach the others is not known; a closed port shows as a hang.",
        fix="Look what that says of the node, and run the test again.",
        commands=tuple(nodes.on(name, command("gpudoctor check network")) for name in list(untried)[:3]),
        evidence=tuple(read(f"{name}: ports", why) for name, why in list(untried.items())[:MOST_NAMED]),
        nodes=tuple(untried),
    )
