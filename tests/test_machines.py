"""Whole machines and the reports they must give."""

import pytest
from msgspec.structs import replace

from gpudoctor.check import without_lines
from gpudoctor.report import from_json as report_from_json
from gpudoctor.report import to_json as report_to_json
from gpudoctor.snapshot import Snapshot, from_json, to_json
from tests.machines.reports import FOLDER, judged, machines, report_of

MACHINES = machines()
EVERY_MACHINE = pytest.mark.parametrize(("name", "machine"), MACHINES.items(), ids=list(MACHINES))


@EVERY_MACHINE
def test_gives_its_report(name: str, machine: Snapshot) -> None:
    wanted = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert report_of(machine) == wanted, "read the difference; if it is right: python -m tests.machines"


@EVERY_MACHINE
def test_survives_json_and_gives_the_same_report(name: str, machine: Snapshot) -> None:
    again = from_json(to_json(machine))
    assert again == machine
    assert judged(again) == judged(machine)


@EVERY_MACHINE
def test_report_survives_json(name: str, machine: Snapshot) -> None:
    """All but the lines to paste: a file's lines are those of whoever wrote it."""
    report = judged(machine)
    bare = replace(report, results=tuple(map(without_lines, report.results)))
    again = report_from_json(report_to_json(report))
    assert report_to_json(again) == report_to_json(bare)
    assert [problem.fix.text for _, problem in again.problems] == [problem.fix.text for _, problem in report.problems]


def test_no_check_crashes_on_any_machine() -> None:
    crashed = {
        (name, result.check, result.reasons)
        for name, machine in MACHINES.items()
        for result in judged(machine).results
        if result.outcome == "crashed"
    }
    assert not crashed


@pytest.mark.parametrize("name", ["healthy-8xh100", "laptop", "no-accelerator", "mig-in-kubernetes"])
def test_a_healthy_machine_prints_no_warning(name: str) -> None:
    counts = judged(MACHINES[name]).counts
    assert (counts.error, counts.warning) == (0, 0)
