"""Whole machines and the reports they must give."""

import re
from collections import Counter

import pytest
from msgspec.structs import replace

from gpudoctor.check import without_lines
from gpudoctor.envelope import decode, encode
from gpudoctor.render.terminal import plain
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot, from_json, to_json
from tests.machines.reports import FOLDER, SIGNS, judged, machines, outcomes, report_of

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
    again = decode(encode(report), Report)
    assert encode(again) == encode(bare)
    assert [problem.fix.text for _, problem in again.problems] == [problem.fix.text for _, problem in report.problems]


def test_every_check_has_its_outcome_on_every_machine() -> None:
    table = outcomes({name: judged(machine) for name, machine in MACHINES.items()})
    assert SIGNS["crashed"] not in table.split("\n", 1)[1]
    assert table == (FOLDER / "outcomes.txt").read_text(encoding="utf-8"), "python -m tests.machines"


@pytest.mark.parametrize("name", ["healthy-8xh100", "laptop", "no-accelerator", "mig-in-kubernetes"])
def test_a_healthy_machine_prints_no_warning(name: str) -> None:
    counts = judged(MACHINES[name]).counts
    assert (counts.error, counts.warning) == (0, 0)


def test_a_whole_report_counts_all_checks_and_names_the_first_that_could_not_look() -> None:
    machine = MACHINES["nvml-hangs"]
    report = judged(machine)
    text = " ".join(plain(report, machine).split())
    number = Counter(result.outcome for result in report.results)
    assert f"Not ready to train: 2 errors; {number['skipped']} checks could not look " in text
    assert (
        f"{len(report.results)} checks: {number['ok']} ok, 2 with findings, {number['skipped']} skipped,"
        f" {number['not-applicable']} not applicable, {number['not-run']} not run"
    ) in text
    assert "Not run: mixed precision test: not run; --deep runs it; CUDA smoke test" in text
    assert "nvmlInit did not return within 10 s cuda-device-order-ambiguous, " in text
    assert re.search(r", cuda-visible-devices-entry-invalid and \d+ more \(-vv lists them\)", text)
