"""The master: an address that leads nowhere or to oneself, a port that is taken, a host that does not know itself."""

from collections.abc import Iterator, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.hang.addresses import (
    is_loopback,
    is_number,
    is_unresolvable,
    numbers,
    outcome,
    owners,
    plain,
    routable,
)
from gpudoctor.hang.causes import Rule
from gpudoctor.hang.job import Job
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import (
    YOUNG,
    Told,
    age,
    command_with,
    listens,
    name,
    nodes_of,
    pids,
    processes,
    seen,
    shown,
    told,
)
from gpudoctor.knowledge.wording import ago, listed
from gpudoctor.snapshot.evidence import NodeEvidence, Socket

NO_WAY = ("no answer", "unreachable", "unresolvable")
STALE = 60.0
"""A listener that is so many seconds older than the job's launchers is from an earlier run."""


def master_is_loopback(job: Job) -> Iterator[HangCause]:
    """A job over several nodes whose master is 127.x or localhost, or a name that leads there on another node."""
    starts = [each for each in told(job) if each.address and not each.standalone]
    several = _is_over_nodes(job, starts)
    waiting = [each for each in starts if each.is_waiting]
    if not several or not waiting:
        return
    wrong = [each for each in starts if _leads_to_itself(each)]
    if not wrong or not any(each.is_waiting for each in wrong):
        return
    master = _master_node(job, starts)
    address = routable(master) if master is not None else ""
    what = "MASTER_ADDR" if wrong[0].launcher is None else _option(wrong[0])
    alone = sorted({each.where for each in wrong})
    yield HangCause(
        cause="master-addr-loopback",
        confidence=0.95,
        ranks=_ranks(wrong),
        evidence=tuple(seen(each, f"{what} {each.address}{_leading(each)}") for each in wrong[:8]),
        summary=f"{what} is {wrong[0].address}, this machine itself, on {listed(alone)}; the job is over several nodes",
        fix=Fix(
            "Name the node of rank 0 by an address that the other nodes reach"
            + (f": {address} is {name(master)}'s." if address and master is not None else ".")
            + " The same line goes to every node.",
            _with_address(wrong, address),
        ),
    )


def _leads_to_itself(each: Told) -> bool:
    """Loopback as a number, as "localhost", or as a name that this node, which is not the master's, looks up so.

    The master's own name may lead to 127.0.1.1 on the master (Debian's habit): torchrun listens on all addresses.
    """
    if is_loopback(each.address):
        return True
    found = numbers(each.node, each.address)
    own = {each.node.hostname, name(each.node)}
    return bool(found) and all(map(is_loopback, found)) and each.address not in own


def _leading(each: Told) -> str:
    found = numbers(each.node, each.address)
    return "" if is_number(each.address) or not found else f", which is {listed(found)} there"


def _is_over_nodes(job: Job, starts: Sequence[Told]) -> bool:
    if any((each.most_nodes or 0) > 1 for each in starts):
        return True
    return len({name(node) for node in job.nodes}) > 1


def _master_node(job: Job, starts: Sequence[Told]) -> NodeEvidence | None:
    """The node of rank 0: by rank, by node rank, by the address that most were told."""
    for rank in job.ranks:
        if rank.rank == 0:
            return rank.node
    for each in starts:
        if each.node_rank == 0:
            return each.node
    for each in starts:
        for number in numbers(each.node, each.address):
            for owner in owners(job.evidence.nodes, number):
                return owner.node
    return starts[0].node if starts else None


def _option(each: Told) -> str:
    if each.kind == "accelerate":
        return "--main_process_ip"
    return "--master-addr" if each.backend == "static" and not _has_endpoint(each) else "--rdzv-endpoint"


def _has_endpoint(each: Told) -> bool:
    return each.launch is not None and bool(each.launch.text("rdzv-endpoint"))


def _with_address(entries: Sequence[Told], address: str, port: int = 0) -> tuple[Command, ...]:
    """The start lines with another master, or the variable to export where there is no launcher."""
    if not address:
        return ()
    lines: list[Command] = []
    for each in entries:
        if each.launcher is None:
            lines.append(command("export MASTER_ADDR={:host}", address))
            if port:
                lines.append(command("export MASTER_PORT={:number}", port))
            continue
        to = port or each.port
        if each.kind == "accelerate":
            lines.append(command_with(each, main_process_ip=address, main_process_port=str(to)))
        elif _option(each) == "--master-addr":
            lines.append(command_with(each, master_addr=address, master_port=str(to)))
        else:
            lines.append(command_with(each, rdzv_endpoint=f"{address}:{to}"))
    return tuple(dict.fromkeys(line for line in lines if line))[:4]


def master_unreachable(job: Job) -> Iterator[HangCause]:
    """A starter that does not get an answer from its master: an unknown name, no route, packets that are dropped."""
    starts = [each for each in told(job) if each.address and each.port]
    cut_off = [each for each in starts if each.is_waiting and _has_no_way(each)]
    if not cut_off:
        return
    first = cut_off[0]
    without = {id(each) for each in cut_off}
    others = [each for each in starts if id(each) not in without]
    proofs = [proof for each in cut_off for proof in _proofs(each)]
    sure = any("retransmi" in proof.text or "the doctor" in proof.text for proof in proofs)
    where = listed(nodes_of(cut_off))
    endpoint = f"{first.address}:{first.port}"
    target = [owner for number in numbers(first.node, first.address) for owner in owners(job.evidence.nodes, number)]
    elsewhere = [each for each in others if (each.address, each.port) != (first.address, first.port)]
    commands: tuple[Command, ...]
    if all(is_unresolvable(each.node, each.address) for each in cut_off):
        known = next((routable(each.node) for each in starts if each.node_rank == 0 or _is_rank_0(each)), "")
        summary = f"The master's name {first.address} does not resolve on {where}"
        text = "Use a name that every node resolves, or the address itself" + (f", {known}." if known else ".")
        commands = _with_address(cut_off, known)
    elif elsewhere and not target:
        right = elsewhere[0]
        address = right.address if not is_loopback(right.address) else routable(right.node)
        summary = (
            f"{where} connects to {endpoint} and gets no answer; {listed(nodes_of(elsewhere))} was told "
            f"{right.address}:{right.port}"
        )
        text = f"Start {where} with the master that the others have, {address}:{right.port}."
        commands = _with_address(cut_off, address, right.port)
    elif target:
        master = name(target[0].node)
        listening = [socket for node, socket in listens(job, first.port) if name(node) == master]
        summary = f"{where} gets no answer from {endpoint}" + (
            f", where {master} listens: packets are dropped on the way" if listening else f" on {master}"
        )
        text = (
            f"Open port {first.port} of {master} for the other nodes: in its firewall, in the network's (security "
            "group, ACL), or take an address of a network that all nodes share. The first line, on the node that "
            f"waits, shows whether it is open; the others, on {master}, show and open it."
        )
        commands = (
            _try(plain(first.address), first.port),
            command("sudo nft list ruleset | grep -n -e drop -e reject -e {:number}", first.port),
            command("sudo iptables -I INPUT -p tcp --dport {:number} -j ACCEPT", first.port),
        )
        if not is_number(first.address):
            commands = commands[1:]
    else:
        summary = f"{where} connects to {endpoint} and gets no answer"
        text = (
            "No node that was looked at has this address. Take the address of rank 0's node in a network that all "
            "nodes share; `ip -brief address` on that node lists its addresses."
        )
        commands = (command("ip -brief address"),)
    yield HangCause(
        cause="master-unreachable",
        confidence=0.95 if sure else 0.8,
        ranks=_ranks(cut_off),
        evidence=tuple(proofs[:10]),
        summary=summary,
        fix=Fix(text, commands),
        confirm=""
        if sure
        else f"Connect from {where} to port {first.port} of {first.address}, with `nc -zv` or telnet.",
    )


def _try(address: str, port: int) -> Command:
    """Whether a port is open, with what every node has."""
    return command("timeout 3 bash -c {:remote} && echo open", command("</dev/tcp/{:host}/{:number}", address, port))


def _is_rank_0(each: Told) -> bool:
    return any(rank.rank == 0 for rank in each.ranks)


def _has_no_way(each: Told) -> bool:
    if is_loopback(each.address) or _is_connected(each):
        return False
    return bool(_connecting(each)) or is_unresolvable(each.node, each.address) or _tried(each) in NO_WAY


def _connecting(each: Told) -> list[Socket]:
    """Its own connections to the master that nobody has answered yet."""
    wanted = set(numbers(each.node, each.address))
    return [
        socket
        for evidence in (each.evidence, *(rank.evidence for rank in each.ranks))
        for socket in evidence.sockets
        if socket.state == "SYN_SENT"
        and socket.remote_port == each.port
        and (not wanted or plain(socket.remote) in wanted)
    ]


def _is_connected(each: Told) -> bool:
    """It has a connection to the master's port, whatever the doctor's own came to."""
    return any(
        socket.state == "ESTABLISHED" and socket.remote_port == each.port
        for evidence in (each.evidence, *(rank.evidence for rank in each.ranks))
        for socket in evidence.sockets
    )


def _tried(each: Told) -> str:
    found = outcome(each.node, each.address, each.port)
    return found.outcome if found is not None else ""


def _proofs(each: Told) -> Iterator[Seen]:
    for socket in _connecting(each):
        tries = f", {socket.retransmits} retransmits" if socket.retransmits else ""
        yield Seen(each.what, f"SYN_SENT to {plain(socket.remote)}:{socket.remote_port}{tries}")
    if is_unresolvable(each.node, each.address):
        yield Seen(f"node {each.where}", f"{each.address} does not resolve, the doctor asked as well")
    tried = outcome(each.node, each.address, each.port)
    if tried is not None and tried.outcome in NO_WAY:
        detail = f" ({tried.detail})" if tried.detail else ""
        yield Seen(
            f"node {each.where}",
            f"the doctor's own connection to {tried.address}:{tried.port}: {tried.outcome}{detail}",
        )


def port_is_taken(job: Job) -> Iterator[HangCause]:
    """Somebody who is not of the job listens on its master's port, on the master's node."""
    starts = [each for each in told(job) if each.port]
    waiting = [each for each in starts if each.is_waiting]
    if not waiting:
        return
    own = pids(job)
    master = _master_node_by_address(job, starts)
    for port in dict.fromkeys(each.port for each in waiting):
        for node, socket in listens(job, port):
            if (name(node), socket.pid) in own or (master and name(node) not in master):
                continue
            yield from _taken(job, starts, waiting, node, socket)
            return


def _master_node_by_address(job: Job, starts: Sequence[Told]) -> set[str]:
    """Names of the nodes that have the master's address; empty where that cannot be told."""
    found = set()
    for each in starts:
        for number in numbers(each.node, each.address):
            if is_loopback(number):
                found.add(each.where)
            found.update(name(owner.node) for owner in owners(job.evidence.nodes, number))
    return found


def _taken(
    job: Job, starts: Sequence[Told], waiting: Sequence[Told], node: NodeEvidence, socket: Socket
) -> Iterator[HangCause]:
    port, host = socket.local_port, name(node)
    other = next((each for each in node.processes if each.process.pid == socket.pid), None) if socket.pid else None
    runs = shown(other.process) if other is not None else ""
    who = f"pid {socket.pid} {socket.process}".strip() if socket.pid else "a process whose owner could not be read"
    older = ""
    if other is not None and other.process.age_seconds > max(age(each) for each in starts) + STALE:
        older = f", started {ago(other.process.age_seconds)}"
    if not socket.pid and (min(age(each) for each in waiting) < YOUNG or not _sockets_are_read(job, host)):
        return
    evidence = [
        Seen(f"node {host} /proc/net/tcp", f"LISTEN on port {port} of {socket.local or 'all addresses'}, {who}{older}")
    ]
    if runs:
        evidence.append(Seen(f"node {host} pid {socket.pid}", runs))
    evidence += [seen(each, f"waits for its master at {each.address}:{each.port}") for each in waiting[:6]]
    absent = next((each for each in starts if each.node_rank == 0 or _is_rank_0(each)), None) is None
    at_master = [each for each in starts if each.where == host]
    if absent and not at_master:
        evidence.append(Seen(f"node {host}", "no launcher of this job is left there: it could not listen (EADDRINUSE)"))
    free = port + 1 if port < 65535 else port - 1
    lines = [line for each in starts for line in _with_address([each], each.address, free)]
    # A listening socket may be handed to a process that never asked for it: nobody else's is offered to be killed.
    is_own = socket.pid in node.own and socket.process not in ("sshd", "systemd")
    look = (
        command("kill {:pid}", socket.pid)
        if is_own
        else command("ps -fp {:pid}", socket.pid)
        if socket.pid
        else command("sudo ss -ltnp {}", f"sport = :{port}")
    )
    yield HangCause(
        cause="master-port-in-use",
        confidence=0.95 if socket.pid else 0.65,
        ranks=(),
        evidence=tuple(evidence),
        summary=f"Port {port} on {host}, the master's, belongs to {who}{older}, which is not of this job",
        fix=Fix(
            f"End that process on {host} if it is a run that was left over, or start the job on another port; "
            f"{free} is an example. Every node needs the same port.",
            tuple(dict.fromkeys((look, *lines)))[:4],
        ),
        confirm="" if socket.pid else f"As root on {host}: `ss -ltnp 'sport = :{port}'` names the process.",
    )


def _sockets_are_read(job: Job, host: str) -> bool:
    """Whether the job's own processes on a node told which sockets are theirs; else the listener may be one of them."""
    own = [evidence for node, evidence, _ in processes(job) if name(node) == host]
    return all(evidence.sockets for evidence in own)


def nobody_hosts_the_store(job: Job) -> Iterator[HangCause]:
    """c10d: no node takes itself for the host of the rendezvous endpoint, so nobody listens.

    torchrun compares the endpoint's host with its hostname and what that resolves to
    (elastic/rendezvous/utils.py, `_matches_machine_hostname`): an address of a second NIC is not among them.
    """
    starts = [each for each in told(job) if each.backend == "c10d" and each.launcher is not None and each.port]
    waiting = [each for each in starts if each.is_waiting and not is_loopback(each.address)]
    if not waiting or len(waiting) != len(starts) or listens(job, waiting[0].port):
        return
    refused = [each for each in waiting if _tried(each) == "refused"]
    if not refused or any(_connecting(each) for each in waiting):
        return
    first = refused[0]
    found = [owner for number in numbers(first.node, first.address) for owner in owners(job.evidence.nodes, number)]
    at = found[0] if found else None
    launchers_there = [each for each in starts if at is not None and each.where == name(at.node)]
    evidence = [
        seen(each, f"in the rendezvous since {age(each):.0f} s; connection to {each.address}:{each.port}: refused")
        for each in refused[:6]
    ]
    evidence.append(Seen("nodes " + listed(nodes_of(starts)), f"nobody listens on port {first.port}"))
    if at is not None and launchers_there:
        own = at.node.resolved.get(at.node.hostname, ())
        evidence.append(
            Seen(f"node {name(at.node)}", f"{at.interface} has {first.address}; hostname {at.node.hostname} "
                 f"resolves to {listed(own) if own else 'nothing'}")
        )  # fmt: skip
        forced = launchers_there[0].is_host is False
        host = name(at.node)
        usable = next((each for each in own if not is_loopback(each)), "")
        lines = _with_address(starts, usable) if usable and not forced else ()
        yield HangCause(
            cause="rdzv-host-mismatch",
            confidence=0.95,
            ranks=(),
            evidence=tuple(evidence),
            summary=f"Nobody listens on the rendezvous endpoint {first.address}:{first.port}: "
            + (
                f"{host} was told is_host=0"
                if forced
                else f"{host} has that address, but its hostname resolves to {listed(own) if own else 'nothing'}"
            ),
            fix=Fix(
                f"Name the endpoint by {host}'s hostname"
                + (f" or by {usable}" if usable else "")
                + f", on every node; or add --rdzv-conf is_host=1 on {host} and is_host=0 on the others.",
                lines or (command_with(launchers_there[0], rdzv_conf="is_host=1"),),
            ),
        )
        return
    if min(age(each) for each in waiting) < YOUNG:
        return
    whose = f"{name(at.node)}, where no launcher of this job was seen" if at is not None else "no node looked at"
    yield HangCause(
        cause="rdzv-host-mismatch",
        confidence=0.6,
        evidence=tuple(evidence),
        summary=f"Nobody listens on the rendezvous endpoint {first.address}:{first.port}, an address of {whose}",
        fix=Fix(
            "Start torchrun on the endpoint's node too, or name a node of the job as the endpoint, by its hostname.",
            _with_address(starts, routable(first.node)),
        ),
        confirm="Look at the endpoint's host as well: `gpudoctor hang --hosts` with every host of the job.",
    )


def static_master_is_not_there(job: Job) -> Iterator[HangCause]:
    """A static rendezvous whose master refuses: node 0's launcher was not started, or has ended."""
    starts = [each for each in told(job) if each.backend in ("static", "env") and each.port and each.address]
    waiting = [each for each in starts if each.is_waiting and not is_loopback(each.address)]
    refused = [each for each in waiting if _tried(each) == "refused"]
    if not refused or min(age(each) for each in refused) < YOUNG or listens(job, refused[0].port):
        return
    if any((each.node_rank == 0 and each.launcher is not None) or _is_rank_0(each) for each in starts):
        return
    first = refused[0]
    yield HangCause(
        cause="launcher-world-mismatch",
        confidence=0.7,
        ranks=(0,),
        evidence=tuple(seen(each, f"connection to {each.address}:{each.port}: refused") for each in refused[:8]),
        summary=f"Nobody listens on the master {first.address}:{first.port}: rank 0's side was not started or has "
        "ended",
        fix=Fix(
            f"Start rank 0's node, {first.address}, as well; if it was started, its own output says why it ended.",
            (command_with(first, node_rank="0"),) if first.launcher is not None else (),
        ),
        confirm=f"Look at {first.address} for a launcher of this job and at its output.",
    )


def _ranks(entries: Sequence[Told]) -> tuple[int, ...]:
    return tuple(sorted({rank.rank for each in entries for rank in each.ranks}))


RULES: tuple[Rule, ...] = (
    master_is_loopback,
    master_unreachable,
    port_is_taken,
    nobody_hosts_the_store,
    static_master_is_not_there,
)
