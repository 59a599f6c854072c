"""Every kind of loss has its words, its fix and lines to paste that name the node."""

import re
from typing import get_args

import pytest

from gpudoctor import __version__
from gpudoctor.fleet.fleet import LOST_IDS, Fleet, Lost, LostKind, Node
from gpudoctor.nccl.lost import ADVICE, lost_findings
from gpudoctor.render.words import safe

KINDS = get_args(LostKind)


def fleet(how: str, *nodes: Node, **lost: Lost) -> Fleet:
    made = Fleet(nodes)
    made.how = how
    made.lost = {number: lost[node.name] for number, node in enumerate(nodes) if node.name in lost}
    return made


@pytest.mark.parametrize("how", ["ssh", "srun", "join", "local"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_explained(kind: LostKind, how: str) -> None:
    (found,) = lost_findings(
        fleet(how, Node("n01"), Node("n02", user="me", port=2222), n02=Lost(kind, "what was seen."))
    )
    problem = found.problem
    assert (found.nodes, problem.severity) == (("n02",), "error")
    # Who has not joined has no name yet: then it is counted, and those who are there are named.
    who = "1 of 2 nodes did not join in time; n01 did" if kind == "joined too late" else "n02"
    assert who in problem.summary and "what was seen" in problem.summary and not problem.summary.endswith(".")
    text = " ".join((problem.summary, problem.meaning, problem.fix.text, *problem.fix.commands))
    assert not re.search(r"[{}]|!|\b(simply|please|just|ensure)\b", text.replace("for key in", ""))
    if how == "ssh":
        assert not any("ssh " in line and "n02" not in line and "ssh_host" not in line for line in problem.fix.commands)
    assert found.id in {*LOST_IDS.values()}


def test_ssh_is_told_user_and_port() -> None:
    (found,) = lost_findings(fleet("ssh", Node("n01", user="me", port=2222), n01=Lost("auth refused")))
    assert found.problem.fix.commands == ("ssh-copy-id -p 2222 me@n01", "ssh -p 2222 me@n01 true")


def test_a_changed_key_is_forgotten_under_its_own_name() -> None:
    (found,) = lost_findings(fleet("ssh", Node("n01", port=2222), n01=Lost("host key changed")))
    assert found.problem.fix.commands[0] == "ssh-keygen -R '[n01]:2222'"


def test_no_key_is_ever_accepted_unseen() -> None:
    for kind in ("host key unknown", "host key changed"):
        text = " ".join((ADVICE[kind].fix, *(line(Node("n1")) for line in ADVICE[kind].commands)))
        assert "fingerprint" in text
        assert "StrictHostKeyChecking" not in text and "keyscan" not in text


def test_the_same_version_is_installed() -> None:
    (found,) = lost_findings(fleet("ssh", Node("n01"), n01=Lost("gpudoctor missing")))
    assert found.problem.fix.commands[0] == f"ssh n01 'python3 -m pip install gpudoctor=={__version__}'"


def test_nodes_that_failed_alike_are_one_finding() -> None:
    nodes = [Node(f"n{number:02d}") for number in range(1, 10)]
    lost = {node.name: Lost("unreachable", f"ssh: connect to host {node.name} port 22: No route") for node in nodes[:8]}
    (found,) = lost_findings(fleet("ssh", *nodes, **lost))
    assert len(found.nodes) == 8
    assert found.problem.summary.startswith("n[01-08] is unreachable: ssh: connect to host n01")
    assert len(found.problem.fix.commands) <= 4


def test_nobody_lost_nothing_said() -> None:
    assert lost_findings(fleet("ssh", Node("n01"))) == ()


def test_what_a_node_says_cannot_steer_the_terminal() -> None:
    (found,) = lost_findings(
        fleet("ssh", Node("n01"), n01=Lost("gpudoctor failed", "\x1b[31mred\nline two" + "x" * 999))
    )
    assert "\n" not in found.problem.summary and len(found.problem.summary) < 500
    assert "\x1b" not in safe(found.problem.summary)
