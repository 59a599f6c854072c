"""The master: an address that leads nowhere or to oneself, a port that is taken, a host that does not know itself."""

from collections.abc import Iterator, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import Command
from gpudoctor.hang.absent import may_be_unread
from gpudoctor.hang.addresses import (
    Owner,
    is_loopback,
    is_number,
    is_unresolvable,
    numbers,
    outcome,
    owners,
    plain,
    routable,
)
from gpudoctor.hang.causes import CAUSES, PROVED, SEEN, HangCause, HangJob, HangRule, Seen, blame, command
from gpudoctor.hang.starts import (
    YOUNG,
    Start,
    command_with,
    listens,
    nodes_of,
    pids,
    processes,
    ranks_in,
    seen,
    shown,
    starts_of,
)
from gpudoctor.knowledge.wording import ago, listed
from gpudoctor.snapshot.evidence import NodeEvidence, Socket
from gpudoctor.sure import BEST

NO_WAY = ("no answer", "unreachable", "unresolvable")
STALE = 60.0
"""A listener that is so many seconds older than the job's launchers is from an earlier run."""


def master_is_loopback(job: HangJob) -> Iterator[HangCause]:
    """A job over several nodes whose master is 127.x or localhost, or a name that leads there on another node."""
    starts = [start for start in starts_of(job) if start.address and not start.standalone]
    wrong = [start for start in starts if _leads_to_itself(start)]
    if not any(start.is_waiting for start in wrong) or not _is_over_nodes(job, starts):
        return
    master = _master_node(job, starts)
    address = routable(master) if master is not None else ""
    what = "MASTER_ADDR" if wrong[0].launcher is None else _option(wrong[0])
    values = {"address": address, "master": master.host} if address and master is not None else {}
    yield blame(
        "master-addr-loopback",
        PROVED,  # what they were told
        ranks_in(wrong),
        f"{what} is {wrong[0].address}, this machine itself, on {listed(sorted(nodes_of(wrong)))}; the job is over "
        "several nodes",
        [seen(start, f"{what} {start.address}{_leading(start)}") for start in wrong[:8]],
        fix=CAUSES["master-addr-loopback"].remedy(
            "known head" if values else "head", *_with_address(wrong, address), **values
        ),
    )


def _leads_to_itself(start: Start) -> bool:
    """Loopback as a number, as "localhost", or as a name that this node, which is not the master's, looks up so.

    The master's own name may lead to 127.0.1.1 on the master (Debian's habit): torchrun listens on all addresses.
    """
    if is_loopback(start.address):
        return True
    leads_to = numbers(start.node, start.address)
    own = {start.node.hostname, start.where}
    return bool(leads_to) and all(map(is_loopback, leads_to)) and start.address not in own


def _leading(start: Start) -> str:
    leads_to = numbers(start.node, start.address)
    return "" if is_number(start.address) or not leads_to else f", which is {listed(leads_to)} there"


def _is_over_nodes(job: HangJob, starts: Sequence[Start]) -> bool:
    return any((start.most_nodes or 0) > 1 for start in starts) or len({node.host for node in job.nodes}) > 1


def _master_node(job: HangJob, starts: Sequence[Start]) -> NodeEvidence | None:
    """The node of rank 0: by rank, by node rank, by the address that most were told."""
    by_rank = (rank.node for rank in job.ranks if rank.rank == 0)
    by_node_rank = (start.node for start in starts if start.node_rank == 0)
    by_address = (owner.node for start in starts for owner in _owners(job, start))
    return next((node for nodes in (by_rank, by_node_rank, by_address) for node in nodes), starts[0].node)


def _owners(job: HangJob, start: Start) -> list[Owner]:
    """The interfaces with the address that a starter was told, as its own node looks it up."""
    return [owner for number in numbers(start.node, start.address) for owner in owners(job.evidence.nodes, number)]


def _option(start: Start) -> str:
    own = start.spelled("master-addr")
    has_endpoint = start.launch is not None and bool(start.launch.text("rdzv-endpoint"))
    by_endpoint = own == "master-addr" and (start.backend != "static" or has_endpoint)
    return "--rdzv-endpoint" if by_endpoint else f"--{own}"


def _with_address(starts: Sequence[Start], address: str, port: int = 0) -> tuple[Command, ...]:
    """The start lines with another master, or the variable to export where there is no launcher."""
    if not address:
        return ()
    lines: list[Command] = []
    for start in starts:
        to = port or start.port
        if start.launcher is None:
            lines.append(command("export MASTER_ADDR={:host}", address))
            if port:
                lines.append(command("export MASTER_PORT={:number}", port))
        elif _option(start) == "--rdzv-endpoint":
            lines.append(command_with(start, rdzv_endpoint=f"{address}:{to}"))
        else:
            lines.append(command_with(start, master_addr=address, master_port=str(to)))
    return tuple(dict.fromkeys(line for line in lines if line))[:4]


def master_unreachable(job: HangJob) -> Iterator[HangCause]:
    """A starter that does not get an answer from its master: an unknown name, no route, packets that are dropped."""
    starts = [start for start in starts_of(job) if start.address and start.port]
    cut_off = [start for start in starts if start.is_waiting and _has_no_way(start)]
    if not cut_off:
        return
    proofs = [proof for start in cut_off for proof in _proofs(start)]
    # The kernel has sent it again, or our own connection went the same way; else it may have begun this moment.
    sure = PROVED if any("retransmi" in proof.text or "the doctor" in proof.text for proof in proofs) else SEEN
    first, where = cut_off[0], listed(nodes_of(cut_off))
    summary, fix = _way(job, starts, cut_off)
    yield blame(
        "master-unreachable",
        sure,
        ranks_in(cut_off),
        summary,
        proofs[:10],
        fix=fix,
        confirm=f"Connect from {where} to port {first.port} of {first.address}, with `nc -zv` or telnet.",
    )


def _way(job: HangJob, starts: Sequence[Start], cut_off: Sequence[Start]) -> tuple[str, Fix]:
    """What is wrong with the way to the master, and what to do."""
    known = CAUSES["master-unreachable"]
    first, where = cut_off[0], listed(nodes_of(cut_off))
    endpoint = f"{first.address}:{first.port}"
    no_answer = f"{where} connects to {endpoint} and gets no answer"
    own = {id(start) for start in cut_off}
    others = (start for start in starts if id(start) not in own)
    elsewhere = [start for start in others if (start.address, start.port) != (first.address, first.port)]
    target = _owners(job, first)
    if all(is_unresolvable(start.node, start.address) for start in cut_off):
        head = next((routable(start.node) for start in starts if start.is_head), "")
        fix = known.remedy("name", *_with_address(cut_off, head), address=f", {head}" if head else "")
        return f"the master's name {first.address} does not resolve on {where}", fix
    if elsewhere and not target:
        right = elsewhere[0]
        address = right.address if not is_loopback(right.address) else routable(right.node)
        lines = _with_address(cut_off, address, right.port)
        fix = known.remedy("others' master", *lines, where=where, endpoint=f"{address}:{right.port}")
        return f"{no_answer}; {listed(nodes_of(elsewhere))} was told {right.address}:{right.port}", fix
    if target:
        master = target[0].node.host
        listening = any(node.host == master for node, _ in listens(job, first.port))
        dropped = f", where {master} listens: packets are dropped on the way" if listening else f" on {master}"
        # whether the port is open, with what every node has
        look = command("</dev/tcp/{:host}/{:number}", plain(first.address), first.port)
        lines = (
            *((command("timeout 3 bash -c {:remote} && echo open", look),) if is_number(first.address) else ()),
            command("sudo nft list ruleset | grep -n -e drop -e reject -e {:number}", first.port),
            command("sudo iptables -I INPUT -p tcp --dport {:number} -j ACCEPT", first.port),
        )
        fix = known.remedy("dropped", *lines, port=first.port, master=master)
        return f"{where} gets no answer from {endpoint}{dropped}", fix
    return no_answer, known.remedy("nobody's")


def _has_no_way(start: Start) -> bool:
    if is_loopback(start.address) or _is_connected(start):
        return False
    return bool(_connecting(start)) or is_unresolvable(start.node, start.address) or _tried(start) in NO_WAY


def _connecting(start: Start) -> list[Socket]:
    """Its own connections to the master that nobody has answered yet."""
    wanted = set(numbers(start.node, start.address))
    return [
        socket
        for evidence in start.evidences
        for socket in evidence.sockets
        if socket.state == "SYN_SENT"
        and socket.remote_port == start.port
        and (not wanted or plain(socket.remote) in wanted)
    ]


def _is_connected(start: Start) -> bool:
    """It has a connection to the master's port, whatever the doctor's own came to."""
    return any(
        socket.state == "ESTABLISHED" and socket.remote_port == start.port
        for evidence in start.evidences
        for socket in evidence.sockets
    )


def _tried(start: Start) -> str:
    tried = outcome(start.node, start.address, start.port)
    return tried.outcome if tried is not None else ""


def _proofs(start: Start) -> Iterator[Seen]:
    for socket in _connecting(start):
        tries = f", {socket.retransmits} retransmits" if socket.retransmits else ""
        yield seen(start, f"SYN_SENT to {plain(socket.remote)}:{socket.remote_port}{tries}")
    if is_unresolvable(start.node, start.address):
        yield Seen(f"node {start.where}", f"{start.address} does not resolve, the doctor asked as well")
    tried = outcome(start.node, start.address, start.port)
    if tried is not None and tried.outcome in NO_WAY:
        detail = f" ({tried.detail})" if tried.detail else ""
        own = f"the doctor's own connection to {tried.address}:{tried.port}: {tried.outcome}{detail}"
        yield Seen(f"node {start.where}", own)


def port_is_taken(job: HangJob) -> Iterator[HangCause]:
    """Somebody who is not of the job listens on its master's port, on the master's node."""
    starts = [start for start in starts_of(job) if start.port]
    waiting = [start for start in starts if start.is_waiting]
    if not waiting:
        return
    # What has started the ranks is the job's too, though there was no time to read it.
    own = pids(job) | {(rank.node.host, rank.evidence.process.parent) for rank in job.ranks}
    masters = {owner.node.host for start in starts for owner in _owners(job, start)}
    masters |= {start.where for start in starts if any(map(is_loopback, numbers(start.node, start.address)))}
    for port in dict.fromkeys(start.port for start in waiting):
        for node, socket in listens(job, port):
            if (node.host, socket.pid) in own or (masters and node.host not in masters):
                continue
            yield from _taken(job, starts, waiting, node, socket)
            return


def _taken(
    job: HangJob, starts: Sequence[Start], waiting: Sequence[Start], node: NodeEvidence, socket: Socket
) -> Iterator[HangCause]:
    port, host, pid = socket.local_port, node.host, socket.pid
    other = next((process for process in node.processes if process.pid == pid), None) if pid else None
    who = f"pid {pid} {socket.process}".strip() if pid else "a process whose owner could not be read"
    older = ""
    if other is not None and other.process.age_seconds > max(start.age for start in starts) + STALE:
        older = f", started {ago(other.process.age_seconds)}"
    if not pid and (min(start.age for start in waiting) < YOUNG or not _sockets_are_read(job, host)):
        return
    evidence = [
        Seen(f"node {host} /proc/net/tcp", f"LISTEN on port {port} of {socket.local or 'all addresses'}, {who}{older}")
    ]
    if other is not None and (runs := shown(other.process)):
        evidence.append(Seen(f"node {host} pid {pid}", runs))
    evidence += [seen(start, f"waits for its master at {start.address}:{start.port}") for start in waiting[:6]]
    if not any(start.is_head or start.where == host for start in starts):
        evidence.append(Seen(f"node {host}", "no launcher of this job is left there: it could not listen (EADDRINUSE)"))
    free = port + 1 if port < 65535 else port - 1
    lines = [line for start in starts for line in _with_address([start], start.address, free)]
    # A listening socket may be handed to a process that never asked for it: nobody else's is offered to be killed.
    if pid in node.own and socket.process not in ("sshd", "systemd"):
        look = command("kill {:pid}", pid)
    else:
        look = command("ps -fp {:pid}", pid) if pid else command("sudo ss -ltnp {}", f"sport = :{port}")
    lines = list(dict.fromkeys((look, *lines)))[:4]
    yield blame(
        "master-port-in-use",
        PROVED if pid and not may_be_unread(job) else BEST,  # else it may be a process of the job's own
        (),
        f"port {port} on {host}, the master's, belongs to {who}{older}, which is not of this job",
        evidence,
        fix=CAUSES["master-port-in-use"].remedy(
            "known", *tuple(dict.fromkeys((look, *lines)))[:4], host=host, free=free
        ),
        confirm=f"As root on {host}: `ss -ltnp 'sport = :{port}'` names the process.",
    )


def _sockets_are_read(job: HangJob, host: str) -> bool:
    """Whether the job's own processes on a node told which sockets are theirs; else the listener may be one of them."""
    return all(evidence.sockets for node, evidence, _ in processes(job) if node.host == host)


def nobody_hosts_the_store(job: HangJob) -> Iterator[HangCause]:
    """c10d: no node takes itself for the host of the rendezvous endpoint, so nobody listens.

    torchrun compares the endpoint's host with its hostname and what that resolves to
    (elastic/rendezvous/utils.py, `_matches_machine_hostname`): an address of a second NIC is not among them.
    """
    known = CAUSES["rdzv-host-mismatch"]
    starts = [
        start for start in starts_of(job) if start.backend == "c10d" and start.launcher is not None and start.port
    ]
    waiting = [start for start in starts if start.is_waiting and not is_loopback(start.address)]
    if not waiting or len(waiting) != len(starts) or listens(job, waiting[0].port):
        return
    refused = [start for start in waiting if _tried(start) == "refused"]
    if not refused or any(_connecting(start) for start in waiting):
        return
    first = refused[0]
    evidence = [
        seen(start, f"in the rendezvous since {start.age:.0f} s; connection to {start.address}:{start.port}: refused")
        for start in refused[:6]
    ]
    evidence.append(Seen("nodes " + listed(nodes_of(starts)), f"nobody listens on port {first.port}"))
    nobody = f"nobody listens on the rendezvous endpoint {first.address}:{first.port}"
    at = next(iter(_owners(job, first)), None)
    there = [start for start in starts if at is not None and start.where == at.node.host]
    if at is not None and there:
        host, hostname = at.node.host, at.node.hostname
        own = at.node.resolved.get(hostname, ())
        leads_to = listed(own) if own else "nothing"
        evidence.append(
            Seen(f"node {host}", f"{at.interface} has {first.address}; hostname {hostname} resolves to {leads_to}")
        )
        forced = there[0].is_host is False
        usable = "" if forced else next((address for address in own if not is_loopback(address)), "")
        yield blame(
            "rdzv-host-mismatch",
            PROVED,  # torchrun's own comparison, made again
            (),
            f"{nobody}: {host} "
            + ("was told is_host=0" if forced else f"has that address, but its hostname resolves to {leads_to}"),
            evidence,
            fix=known.remedy(
                "known host",
                *(_with_address(starts, usable) or (command_with(there[0], rdzv_conf="is_host=1"),)),
                host=host,
                address=f" or by {usable}" if usable else "",
            ),
        )
    elif min(start.age for start in waiting) >= YOUNG:
        whose = f"{at.node.host}, where no launcher of this job was seen" if at is not None else "no node looked at"
        yield blame(
            "rdzv-host-mismatch",
            BEST,  # it may be on a node that was not looked at
            (),
            f"{nobody}, an address of {whose}",
            evidence,
            fix=known.remedy("absent host", *_with_address(starts, routable(first.node))),
            confirm="Look at the endpoint's host as well: `gpudoctor hang --hosts` with every host of the job.",
        )


def static_master_is_not_there(job: HangJob) -> Iterator[HangCause]:
    """A static rendezvous whose master refuses: node 0's launcher was not started, or has ended."""
    starts = [start for start in starts_of(job) if start.backend in ("static", "env") and start.port and start.address]
    waiting = [start for start in starts if start.is_waiting and not is_loopback(start.address)]
    refused = [start for start in waiting if _tried(start) == "refused"]
    if not refused or min(start.age for start in refused) < YOUNG or listens(job, refused[0].port):
        return
    if any(start.is_head and (start.launcher is not None or start.ranks[0].rank == 0) for start in starts):
        return
    first = refused[0]
    again = (command_with(first, node_rank="0"),) if first.launcher is not None else ()
    yield blame(
        "launcher-world-mismatch",
        SEEN,  # rank 0 may be on its way
        [0],
        f"nobody listens on the master {first.address}:{first.port}: rank 0's side was not started or has ended",
        [seen(start, f"connection to {start.address}:{start.port}: refused") for start in refused[:8]],
        fix=CAUSES["launcher-world-mismatch"].remedy("absent head", *again, head=first.address),
        confirm=f"Look at {first.address} for a launcher of this job and at its output.",
    )


RULES: tuple[HangRule, ...] = (
    master_is_loopback,
    master_unreachable,
    port_is_taken,
    nobody_hosts_the_store,
    static_master_is_not_there,
)
