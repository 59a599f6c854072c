"""What `check` shows: the machine, its GPUs, a line a culprit with what to do, the verdict last."""

import io
from collections.abc import Callable

import msgspec
import pytest

from gpudoctor.check import Fix, Problem, Severity, Snapshot, command
from gpudoctor.culprits import culprits
from gpudoctor.fleet.survey import NodesProblem, Survey
from gpudoctor.plugins import find_checks
from gpudoctor.render.fleet import show_survey
from gpudoctor.render.prose import console
from gpudoctor.render.terminal import ALL, BRIEF, REASONS, plain
from gpudoctor.report import Sight
from gpudoctor.testing.machines import h100_node
from tests.machines.hand_built import MACHINES
from tests.machines.reports import judged

BROKEN = MACHINES["broken-8xh100"]()
REPORT = judged(BROKEN)


def lines(width: int = 80, verbosity: int = BRIEF, machine: Snapshot = BROKEN) -> list[str]:
    return plain(judged(machine), machine, verbosity, width).splitlines()


def test_the_broken_example_is_thirty_lines_with_the_verdict_last() -> None:
    shown = lines()
    assert len(shown) <= 30
    assert shown[-1] == "Not ready to train: 5 errors, 5 warnings"
    assert shown[0] == shown[-1], "longer than the terminal: the verdict comes first too"
    assert not [line for line in shown if line != line.rstrip()]
    assert not [line for line in shown if "Seen:" in line or "Fix" in line]


def test_each_sick_gpu_has_its_mark_and_reason_and_healthy_ones_are_folded() -> None:
    table = [line.split() for line in lines() if "H100 80GB HBM3 " in line]
    assert [row[0] if row[0] in ("x", "!") else "" for row in table] == ["", "!", "x", "", "x", ""]
    assert [row[-1] for row in table if row[0] not in ("x", "!")] == ["ok"] * 3
    assert table[2][1] == "3" and " ".join(table[2]).endswith("bad memory")
    assert table[-1][0] == "6-7"


def test_one_trouble_is_one_line_with_one_fix() -> None:
    shown = "\n".join(lines())
    assert (
        shown.count("GPU 3 ") == 1
        and "[row-remap-pending +2] the host as root: sudo nvidia-smi --gpu-reset -i 3" in shown
    )
    assert "Restart the job" not in shown, "Xid 94 alone would say so, and the bad row kills the next one"
    reasons = "\n".join(lines(verbosity=REASONS))
    assert "[ecc-uncorrected-errors]" in reasons and "[gpu-xid-hardware]" in reasons and "Seen:" in reasons
    assert "host-index-in-container (problem)" in "\n".join(lines(verbosity=ALL))


def test_a_healthy_machine_fits_six_lines() -> None:
    shown = lines(machine=h100_node())
    assert len(shown) <= 6 and shown[-1] == "Ready to train"
    assert shown[3].split()[0] == "0-7" and shown[3].endswith("ok")


def test_what_could_not_be_looked_at_is_not_called_ok() -> None:
    machine = h100_node()
    blind = msgspec.structs.replace(REPORT, results=tuple(r for r in REPORT.results if not r.problems))
    one = msgspec.structs.replace(next(r for r in blind.results if r.group == "gpu"), outcome="skipped")
    shown = plain(msgspec.structs.replace(blind, results=(one, *blind.results)), machine, BRIEF, 80)
    assert "not wholly seen" in shown and "  ok" not in shown


def test_a_choice_that_leaves_gpus_out_calls_none_well() -> None:
    chosen = msgspec.structs.replace(REPORT, results=(), sight=Sight(selected=("network",), seen=("network",)))
    assert "  ok" not in plain(chosen, h100_node(), BRIEF, 80)
    of_gpus = msgspec.structs.replace(chosen, sight=Sight(selected=("gpu",), seen=("GPUs",)))
    assert "  ok" in plain(of_gpus, h100_node(), BRIEF, 80)


def problem(severity: Severity, *follows: str, gpus: tuple[int, ...] = ()) -> Problem:
    return Problem(severity=severity, summary="s", meaning="m", fix=Fix("f"), evidence=(), gpus=gpus, follows=follows)


def same(each: Problem) -> Problem:
    return each


gpus_of: Callable[[Problem], tuple[int, ...]] = lambda each: each.gpus  # noqa: E731


def gathered(*found: tuple[str, Problem]) -> list[tuple[str, Severity, list[str]]]:
    return [(c.id, c.severity, [id for id, _ in c.others]) for c in culprits(found, same, gpus_of)]


def test_what_follows_is_gathered_on_its_own_gpu_only_and_the_worst_severity_counts() -> None:
    rows, here, there = (
        problem("warning", gpus=(3,)),
        problem("error", "rows", gpus=(3,)),
        problem("error", "rows", gpus=(5,)),
    )
    assert gathered(("rows", rows), ("ecc", here)) == [("rows", "error", ["ecc"])]
    assert gathered(("rows", rows), ("ecc", there)) == [("ecc", "error", []), ("rows", "warning", [])]
    everywhere = problem("error")
    assert gathered(("driver", everywhere), ("a", problem("error", "driver")), ("b", problem("info", "a"))) == [
        ("driver", "error", ["a", "b"])
    ]
    assert gathered(("a", problem("error", "b")), ("b", problem("error", "a"))), "a circle loses nothing"


def test_checks_follow_checks_that_there_are() -> None:
    checks, _ = find_checks()
    ids = {check.id for check in checks}
    assert not {(check.id, each) for check in checks for each in check.follows if each not in ids or each == check.id}
    assert not [check.id for check in checks if len(check.short) > 40]


def test_nodes_are_folded_into_a_line_a_culprit() -> None:
    reset = Fix("Reset it.", (command("sudo nvidia-smi --gpu-reset -i 3"),))
    found = msgspec.structs.replace(problem("error", gpus=(3,)), summary="GPU 3 has a bad row", fix=reset)
    ecc = msgspec.structs.replace(problem("error", "row-remap-pending", gpus=(3,)), summary="GPU 3 counts errors")
    survey = Survey(
        nodes=("n1", "n2", "n3"),
        examined=("n1", "n2", "n3"),
        problems=(
            NodesProblem(check="row-remap-pending", nodes=("n1", "n2"), problem=found),
            NodesProblem(check="ecc-uncorrected-errors", nodes=("n2",), problem=ecc),
        ),
    )
    page = io.StringIO()
    show_survey(survey, console(no_color=True, file=page, width=80))
    shown = page.getvalue().splitlines()
    assert shown[2:5] == [
        "error n[1-2]: GPU 3 has a bad row",
        "  [row-remap-pending +1] on n1, the host as root:",  # in one line with the command it would have 82 columns
        "    sudo nvidia-smi --gpu-reset -i 3",
    ]
    assert shown[-1].startswith("Not ready to train: errors on n[1-2]") and len(shown) == 7


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_prose_is_wider_than_the_terminal(width: int) -> None:
    assert not [line for line in lines(width) if len(line) > width and not line.startswith("  [")]
