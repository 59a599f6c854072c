"""What a node that could not be reached, or was lost, means, and what to do."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor import __version__
from gpudoctor.fleet.fleet import Fleet, Lost, LostKind, Node
from gpudoctor.fleet.names import folded
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.preflight_nodes import finding, ssh_words
from gpudoctor.snapshot import read

MOST_COMMANDS = 4


class Advice(NamedTuple):
    """Of one kind of loss. `{who}` is the folded names, `{detail}` what was seen, `{ssh}` and `{name}` one node."""

    id: str
    summary: str
    meaning: str
    fix: str
    commands: tuple[str, ...] = ()
    """For each of the first nodes."""


NOBODY_STARTS = "No rank was started there, and none elsewhere: the test needs all nodes."
BY_HAND = "ssh {ssh} true"

ADVICE: dict[LostKind, Advice] = {
    "auth refused": Advice(
        "node-auth-refused",
        "{who}: ssh was refused, no key was accepted",
        NOBODY_STARTS,
        "Put your public key there once, with your password. The second line must then end without a question.",
        ("ssh-copy-id {copy}", BY_HAND),
    ),
    "host key unknown": Advice(
        "node-host-key-unknown",
        "{who}: ssh does not know the host key",
        f"{NOBODY_STARTS} gpudoctor accepts no key on its own: whoever answers could be another machine.",
        "Connect once by hand, and compare the fingerprint that ssh shows with the node's own, read on its console or "
        "from its administrator (second line), before answering yes.",
        (BY_HAND, "for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $key; done"),
    ),
    "host key changed": Advice(
        "node-host-key-changed",
        "{who}: the host key is not the one that ssh knows",
        f"{NOBODY_STARTS} Either the node was installed anew, or another machine answers in its place.",
        "Ask who installed it. When the new key is right, compare its fingerprint on the node's console, forget the "
        "old key and connect once by hand.",
        ("ssh-keygen -R {keyname}", BY_HAND),
    ),
    "unresolvable": Advice(
        "node-unresolvable",
        "{who}: the name does not resolve here",
        NOBODY_STARTS,
        "Look for a typing error; else put the name into DNS, /etc/hosts or ~/.ssh/config, or name the node by its "
        "address.",
        ("getent ahosts {name}", "ssh -G {ssh} | grep -i ^hostname"),
    ),
    "unreachable": Advice(
        "node-unreachable",
        "{who} is unreachable",
        NOBODY_STARTS,
        "The node is down, or its network or the route to it is. Look at its console, at the scheduler's state of it "
        "and at the cable or switch port; start it, or leave it out.",
        ("ip route get $(getent ahostsv4 {name} | cut -d' ' -f1 | head -n 1)", BY_HAND),
    ),
    "refused": Advice(
        "node-refused",
        "{who}: the connection was refused",
        NOBODY_STARTS,
        "The machine answers, and no sshd listens on that port: start it, or name the port as in user@host:2222.",
        ("ssh -v {ssh} true 2>&1 | grep -i connect",),
    ),
    "no answer": Advice(
        "node-no-answer",
        "{who} did not answer",
        NOBODY_STARTS,
        "The node is down, too busy to answer, or a packet filter drops what comes in. Look at its console and at the "
        "scheduler's state of it; start it, let port 22 in, or leave it out. Where the second line stops at "
        "SSH2_MSG_KEX_ECDH_REPLY, large packets are lost on the way: lower the MTU of the interfaces.",
        (BY_HAND, "timeout 10 ssh -v {ssh} true 2>&1 | tail -n 3"),
    ),
    "gpudoctor missing": Advice(
        "gpudoctor-missing-on-node",
        "{who}: there is no gpudoctor",
        NOBODY_STARTS,
        "Install this version there, into an environment that a non-interactive login finds on its PATH; or say where "
        "it is.",
        ("ssh {ssh} 'python3 -m pip install gpudoctor=={version}'", "ssh {ssh} 'command -v gpudoctor; echo $PATH'"),
    ),
    "gpudoctor failed": Advice(
        "gpudoctor-failed-on-node",
        "{who}: gpudoctor was started there and ended",
        NOBODY_STARTS,
        "Run it by hand there; what it says is the reason.",
        ("ssh {ssh} 'gpudoctor --version; gpudoctor check'",),
    ),
    "other version": Advice(
        "gpudoctor-versions-differ",
        "{who}: another version of gpudoctor",
        "The two would not understand each other, or measure differently.",
        "Install the same version everywhere.",
        ("ssh {ssh} 'python3 -m pip install gpudoctor=={version}'",),
    ),
    "connection lost": Advice(
        "node-connection-lost",
        "The connection to {who} was lost",
        "Its ranks end by themselves as their agent does. The other nodes' ranks were ended.",
        "The node went down, or its network or the agent did. Look whether it still runs, and what its kernel log says "
        "of that time (out of memory, a link that went down).",
        ("ssh {ssh} 'uptime; dmesg | tail -n 20'",),
    ),
    "joined too late": Advice(
        "too-few-nodes-joined",
        "{missing} of {count} nodes did not join in time; {here} did",
        "The test starts when all nodes are there.",
        "Paste the line that the head printed on every other node. Where it was pasted and nothing came: look whether "
        "the head's address and port are reached from there.",
        (),
    ),
    "scheduler": Advice(
        "scheduler-refused",
        "{who}: the scheduler did not start the agent",
        NOBODY_STARTS,
        "Look at the state of the nodes and of the job.",
        ("sinfo -N -n {name} -o '%N %T %E'", "squeue --me"),
    ),
}
BY_SRUN: dict[LostKind, tuple[str, ...]] = {
    "gpudoctor missing": ("srun -w {name} -N1 -n1 python3 -m pip install gpudoctor=={version}",),
    "gpudoctor failed": ("srun -w {name} -N1 -n1 gpudoctor check",),
    "other version": ("srun -w {name} -N1 -n1 python3 -m pip install gpudoctor=={version}",),
    "no answer": ("sinfo -N -n {name} -o '%N %T %E'", "srun -w {name} -N1 -n1 true"),
    "connection lost": ("sinfo -N -n {name} -o '%N %T %E'", "sacct -j $SLURM_JOB_ID -o JobID,State,ExitCode,NodeList"),
}
WITHOUT_SSH: dict[LostKind, tuple[str, ...]] = {
    "gpudoctor missing": ("python3 -m pip install gpudoctor=={version}",),
    "gpudoctor failed": ("gpudoctor --version",),
    "other version": ("python3 -m pip install gpudoctor=={version}",),
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
        advice.id,
        "error",
        summary.rstrip("."),
        meaning=meaning or advice.meaning,
        fix=advice.fix,
        commands=_commands(fleet.how, lost.kind, advice, nodes),
        evidence=(read(f"{fleet.how} to {folded(names)}", f"{lost.kind}{f': {detail}' if detail else ''}"),),
        nodes=names,
    )


def _commands(how: str, kind: LostKind, advice: Advice, nodes: Sequence[Node]) -> tuple[str, ...]:
    lines = advice.commands
    if how == "srun":
        lines = BY_SRUN.get(kind, advice.commands if kind == "scheduler" else ())
    elif how != "ssh":
        lines = WITHOUT_SSH.get(kind, ())
    found = [_filled(line, node) for node in nodes[:MOST_COMMANDS] for line in lines]
    return tuple(dict.fromkeys(found))[:MOST_COMMANDS]


def _filled(line: str, node: Node) -> str:
    name = shlex.quote(node.name)
    key = shlex.quote(f"[{node.name}]:{node.port}") if node.port not in (0, 22) else name
    # Not str.format: a command may hold braces of the shell's.
    for word, value in (
        ("{ssh}", ssh_words(node)),
        ("{copy}", ssh_words(node)),
        ("{keyname}", key),
        ("{name}", name),
        ("{version}", __version__),
    ):
        line = line.replace(word, value)
    return line
