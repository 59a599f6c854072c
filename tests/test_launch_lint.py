"""`gpudoctor launch` and `gpudoctor lint` agree: what the one emits, the other finds nothing wrong with."""

import pytest

from gpudoctor.launch.decide import Surroundings, decide
from gpudoctor.launch.plan import CannotEmit, LaunchPlan, LaunchWish
from gpudoctor.launch.text import text
from gpudoctor.launch.write import emission
from gpudoctor.launcher import registry
from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule
from gpudoctor.testing.machines import but, h100_node

RULES = every_rule()
SCRIPT = ("train.py", "--lr", "0.1", "--name", "a b", "it's $HOME")


PYTHON = "/opt/env/bin/python3"


def plan(framework: str, nodes: int, elastic: tuple[int, int] | None = None, python: str = PYTHON) -> LaunchPlan:
    names = tuple(f"n{number:02}" for number in range(1, nodes + 1))
    machine = but(h100_node(4), "host.hostname", "n01")
    wish = LaunchWish(framework=framework, program=SCRIPT, elastic=elastic)
    addresses = {name: f"192.0.2.{number}" for number, name in enumerate(names, 11)}
    around = Surroundings(names=names, hosts_named=True, here="n01", addresses=addresses, interpreter=python)
    return decide(wish, {"n01": machine}, around)


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("framework", registry.frameworks())
@pytest.mark.parametrize("python", ["", PYTHON], ids=["by-name", "by-path"])
def test_everything_emitted_is_ok(framework: str, nodes: int, python: str) -> None:
    planned = plan(framework, nodes, python=python)
    try:
        written = emission(planned)
    except CannotEmit as refused:
        assert nodes > 1 or framework not in ("torchrun", "spawn"), refused
        return
    judge(planned, text(written))
    for file in written.files:
        if file.alternative:
            judge(planned, file.text)


@pytest.mark.parametrize("elastic", [(1, 3), (3, 3), (2, 3)])
def test_an_elastic_torchrun_is_ok(elastic: tuple[int, int]) -> None:
    planned = plan("torchrun", 3, elastic)
    judge(planned, text(emission(planned)))


def judge(planned: LaunchPlan, emitted: str) -> None:
    facts = LintFacts(nodes=len(planned.nodes), gpus_per_node=planned.nodes[0].processes, versions=planned.versions)
    report = lint(read_job(emitted, facts), RULES)
    said = [f"{each.code} line {each.line}: {each.summary}" for each in report.problems if each.severity != "info"]
    assert (report.verdict, said) == ("ok", []), emitted
