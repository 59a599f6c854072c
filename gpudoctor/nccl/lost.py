"""What a node that could not be reached, or was lost, means, and what to do."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpudoctor import __version__
from gpudoctor.check import Fix, Problem
from gpudoctor.command import Command, command, over_ssh
from gpudoctor.fleet.fleet import LOST_IDS, Fleet, Lost, LostKind, Node
from gpudoctor.fleet.names import folded
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import ssh_words
from gpudoctor.snapshot import read

MOST_COMMANDS = 4


Line = Callable[[Node], Command]
"""What to paste about one node."""


class LossAdvice(NamedTuple):
    """Of one kind of loss. `{who}` is the folded names, `{missing}`, `{count}` and `{here}` the nodes that joined."""

    summary: str
    meaning: str
    fix: str
    commands: tuple[Line, ...] = ()
    """For each of the first nodes."""


def _there(line: Command) -> Line:
    return lambda node: over_ssh(ssh_words(node), line)


def _by_srun(line: Command) -> Line:
    return lambda node: command("srun -w {:name} -N1 -n1 {:line}", node.name, line)


def _here(line: Command) -> Line:
    return lambda node: line


def _by_hand(node: Node) -> Command:
    return command("ssh {:line} true", ssh_words(node))


def _copy_key(node: Node) -> Command:
    return command("ssh-copy-id {:line}", ssh_words(node))


def _forget_key(node: Node) -> Command:
    if node.port not in (0, 22):
        return command("ssh-keygen -R {}", f"[{node.name}]:{node.port}")
    return command("ssh-keygen -R {:host}", node.name)


def _looked_up(node: Node) -> Command:
    return command("getent ahosts {:host}", node.name)


def _ssh_settings(node: Node) -> Command:
    return command("ssh -G {:line} | grep -i ^hostname", ssh_words(node))


def _route(node: Node) -> Command:
    return command("getent ahostsv4 {:host} | cut -d ' ' -f 1 | head -n 1 | xargs -n 1 ip route get", node.name)


def _connecting(node: Node) -> Command:
    return command("ssh -v {:line} true 2>&1 | grep -i connect", ssh_words(node))


def _last_words(node: Node) -> Command:
    return command("timeout 10 ssh -v {:line} true 2>&1 | tail -n 3", ssh_words(node))


def _state(node: Node) -> Command:
    return command("sinfo -N -n {:name} -o '%N %T %E'", node.name)


INSTALL = command("python3 -m pip install gpudoctor=={:name}", __version__)
NOBODY_STARTS = "No rank was started there, and none elsewhere: the test needs all nodes."

ADVICE: dict[LostKind, LossAdvice] = {
    "auth refused": LossAdvice(
        "{who}: ssh was refused, no key was accepted",
        NOBODY_STARTS,
        "Put your public key there once, with your password. The second line must then end without a question.",
        (_copy_key, _by_hand),
    ),
    "host key unknown": LossAdvice(
        "{who}: ssh does not know the host key",
        f"{NOBODY_STARTS} gpudoctor accepts no key on its own: whoever answers could be another machine.",
        "Connect once by hand, and compare the fingerprint that ssh shows with the node's own, read on its console or "
        "from its administrator (second line), before answering yes.",
        (_by_hand, _here(command("for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $key; done"))),
    ),
    "host key changed": LossAdvice(
        "{who}: the host key is not the one that ssh knows",
        f"{NOBODY_STARTS} Either the node was installed anew, or another machine answers in its place.",
        "Ask who installed it. When the new key is right, compare its fingerprint on the node's console, forget the "
        "old key and connect once by hand.",
        (_forget_key, _by_hand),
    ),
    "unresolvable": LossAdvice(
        "{who}: the name does not resolve here",
        NOBODY_STARTS,
        "Look for a typing error; else put the name into DNS, /etc/hosts or ~/.ssh/config, or name the node by its "
        "address.",
        (_looked_up, _ssh_settings),
    ),
    "unreachable": LossAdvice(
        "{who} is unreachable",
        NOBODY_STARTS,
        "The node is down, or its network or the route to it is. Look at its console, at the scheduler's state of it "
        "and at the cable or switch port; start it, or leave it out.",
        (_route, _by_hand),
    ),
    "refused": LossAdvice(
        "{who}: the connection was refused",
        NOBODY_STARTS,
        "The machine answers, and no sshd listens on that port: start it, or name the port as in user@host:2222.",
        (_connecting,),
    ),
    "no answer": LossAdvice(
        "{who} did not answer",
        NOBODY_STARTS,
        "The node is down, too busy to answer, or a packet filter drops what comes in. Look at its console and at the "
        "scheduler's state of it; start it, let port 22 in, or leave it out. Where the second line stops at "
        "SSH2_MSG_KEX_ECDH_REPLY, large packets are lost on the way: lower the MTU of the interfaces.",
        (_by_hand, _last_words),
    ),
    "gpudoctor missing": LossAdvice(
        "{who}: there is no gpudoctor",
        NOBODY_STARTS,
        "Install this version there, into an environment that a non-interactive login finds on its PATH; or say where "
        "it is.",
        (_there(INSTALL), _there(command("command -v gpudoctor; echo $PATH"))),
    ),
    "gpudoctor failed": LossAdvice(
        "{who}: gpudoctor was started there and ended",
        NOBODY_STARTS,
        "Run it by hand there; what it says is the reason.",
        (_there(command("gpudoctor --version; gpudoctor check")),),
    ),
    "other version": LossAdvice(
        "{who}: another version of gpudoctor",
        "The two would not understand each other, or measure differently.",
        "Install the same version everywhere.",
        (_there(INSTALL),),
    ),
    "connection lost": LossAdvice(
        "The connection to {who} was lost",
        "Its ranks end by themselves as their agent does. The other nodes' ranks were ended.",
        "The node went down, or its network or the agent did. Look whether it still runs, and what its kernel log says "
        "of that time (out of memory, a link that went down).",
        (_there(command("uptime; sudo dmesg | tail -n 20")),),
    ),
    "joined too late": LossAdvice(
        "{missing} of {count} nodes did not join in time; {here} did",
        "The test starts when all nodes are there.",
        "Paste the line that the head printed on every other node. Where it was pasted and nothing came: look whether "
        "the head's address and port are reached from there.",
        (),
    ),
    "scheduler": LossAdvice(
        "{who}: the scheduler did not start the agent",
        NOBODY_STARTS,
        "Look at the state of the nodes and of the job.",
        (_state, _here(command("squeue --me"))),
    ),
}
BY_SRUN: dict[LostKind, tuple[Line, ...]] = {
    "gpudoctor missing": (_by_srun(INSTALL),),
    "gpudoctor failed": (_by_srun(command("gpudoctor check")),),
    "other version": (_by_srun(INSTALL),),
    "no answer": (_state, _by_srun(command("true"))),
    "connection lost": (_state, _here(command("sacct -j $SLURM_JOB_ID -o JobID,State,ExitCode,NodeList"))),
}
WITHOUT_SSH: dict[LostKind, tuple[Line, ...]] = {
    "gpudoctor missing": (_here(INSTALL),),
    "gpudoctor failed": (_here(command("gpudoctor --version")),),
    "other version": (_here(INSTALL),),
}
"""Lines to paste on the node itself, where nothing leads there from here."""


def lost_findings(fleet: Fleet, *, meaning: str = "") -> tuple[Finding, ...]:
    """One finding for each kind of loss and what was seen, with its nodes. `meaning`: where no ranks are concerned."""
    groups: dict[Lost, list[Node]] = {}
    for index, lost in sorted(fleet.lost.items()):
        if 0 <= index < len(fleet.nodes):
            # What ssh says often names the host: nodes that failed alike belong together.
            alike = Lost(lost.kind, lost.detail.replace(fleet.name(index), "HOST"))
            groups.setdefault(alike, []).append(fleet.nodes[index])
    return tuple(_finding(fleet, lost, nodes, meaning) for lost, nodes in groups.items())


def _finding(fleet: Fleet, lost: Lost, nodes: Sequence[Node], meaning: str) -> Finding:
    advice = ADVICE[lost.kind]
    names = tuple(node.name for node in nodes)
    detail = fleet.lost[next(index for index, node in enumerate(fleet.nodes) if node is nodes[0])].detail
    detail = " ".join(detail.split())[:300]
    here = folded([node.name for index, node in enumerate(fleet.nodes) if index not in fleet.lost]) or "none"
    words = {"who": folded(names), "missing": str(len(nodes)), "count": str(len(fleet.nodes)), "here": here}
    summary = advice.summary.format(**words) + (f": {detail}" if detail else "")
    return finding(
        LOST_IDS[lost.kind],
        "error",
        summary.rstrip("."),
        meaning=meaning or advice.meaning,
        fix=advice.fix,
        commands=_commands(fleet.how, lost.kind, advice, nodes),
        evidence=(read(f"{fleet.how} to {folded(names)}", f"{lost.kind}{f': {detail}' if detail else ''}"),),
        nodes=names,
    )


def _commands(how: str, kind: LostKind, advice: LossAdvice, nodes: Sequence[Node]) -> tuple[Command, ...]:
    lines = advice.commands
    if how == "srun":
        lines = BY_SRUN.get(kind, advice.commands if kind == "scheduler" else ())
    elif how != "ssh":
        lines = WITHOUT_SSH.get(kind, ())
    commands = [line(node) for node in nodes[:MOST_COMMANDS] for line in lines]
    return tuple(dict.fromkeys(commands))[:MOST_COMMANDS]


def other_version(version: str) -> Problem:
    """Of a node whose agent is of another gpudoctor, and was asked all the same."""
    return Problem(
        severity="warning",
        summary=f"gpudoctor {version} has looked there, and this is {__version__}",
        meaning="What only the newer of them reads or judges is missing of that node, or of the comparison.",
        evidence=(read("the agent's first words", f"gpudoctor {version}"),),
        fix=Fix.of("Install the same version there.", INSTALL),
    )
