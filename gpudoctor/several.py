"""Several machines examined at once, every check asked about each: `gpudoctor check --hosts`."""

import os
import time
from collections.abc import Sequence

from msgspec.structs import replace

from gpudoctor import __version__, defaults
from gpudoctor.active import Waiting
from gpudoctor.diagnose import diagnose
from gpudoctor.fleet.compare import differences
from gpudoctor.fleet.fleet import LOST_IDS, Fleet, Lost
from gpudoctor.fleet.messages import Examine, Examined
from gpudoctor.fleet.reach import ANSWER_SECONDS, REACH_SECONDS, reach, unheard
from gpudoctor.fleet.survey import Survey, Unexamined, folded_problems, folded_reasons
from gpudoctor.fleet.where import Where, standing_fleet
from gpudoctor.nccl.lost import lost_findings, other_version
from gpudoctor.plugins import chosen_checks
from gpudoctor.snapshot import Expectation, Snapshot, UnreadableSnapshot, from_json, read

OTHER_VERSION = LOST_IDS["other version"]


def surveyed(
    where: Where,
    names: Sequence[str],
    waiting: Waiting,
    *,
    python: str | None = None,
    torch: bool = True,
    timeout: float = defaults.READ_SECONDS,
    expect: Expectation | None = None,
) -> tuple[Survey, dict[str, Snapshot]]:
    """Examine all nodes that are meant, and ask the checks of these names (none: all) about each.

    The answer, and the snapshots that it rests on, by node: they tell which words of it are names. Raises `BadInput`.
    """
    started = time.monotonic()
    checks, broken = chosen_checks(names)  # a misspelt check is said before any node is reached
    with standing_fleet(where, os.environ) as fleet:
        reach(fleet, timeout=REACH_SECONDS, on_change=unheard(fleet, waiting), only_asks=True)
        snapshots, unexamined = examined(
            fleet, Examine(torch=torch, python=python or "", brief=False, timeout=timeout), waiting
        )
        fleet.dismiss()
        unlike = {node: version for node, version in fleet.other_versions.items() if fleet.name(node) in snapshots}
    if expect is not None:
        snapshots = {name: replace(snapshot, expected=read("--expect", expect)) for name, snapshot in snapshots.items()}
    reports = {name: diagnose(snapshot, checks, broken, names=names) for name, snapshot in snapshots.items()}
    found = Survey(
        gpudoctor=__version__,
        reached_by=fleet.how,
        nodes=tuple(node.name for node in fleet.nodes),
        examined=tuple(snapshots),
        unexamined=unexamined,
        differences=differences(snapshots),
        problems=folded_problems(
            [
                *((fleet.name(node), OTHER_VERSION, other_version(version)) for node, version in unlike.items()),
                *(
                    (name, result.check, problem)
                    for name, report in reports.items()
                    for result, problem in report.problems
                ),
            ]
        ),
        blind=folded_reasons(
            {
                name: [
                    f"{result.check}: {reason}"
                    for result in report.could_not_look
                    for reason in result.reasons or ("no reason given",)
                ]
                for name, report in reports.items()
            }
        ),
        selected=tuple(names),
        lacking=folded_reasons({name: report.sight.lacking for name, report in reports.items()}),
        left_out=next((report.sight.left_out for report in reports.values()), ()),
        seconds=round(time.monotonic() - started, 3),
    )
    return found, snapshots


def examined(fleet: Fleet, order: Examine, waiting: Waiting) -> tuple[dict[str, Snapshot], tuple[Unexamined, ...]]:
    """The snapshots by node, and the nodes without one."""
    answers = (
        fleet.ask(
            order,
            Examined,
            timeout=order.timeout + ANSWER_SECONDS,
            of=fleet.present,
            waiting=waiting,
        )
        if fleet.present
        else {}
    )
    return sorted_out(fleet, answers)


def sorted_out(fleet: Fleet, answers: dict[int, Examined | Lost]) -> tuple[dict[str, Snapshot], tuple[Unexamined, ...]]:
    """The snapshots by node, and the nodes that gave none."""
    snapshots: dict[str, Snapshot] = {}
    for node, answer in answers.items():
        if isinstance(answer, Lost):
            fleet.lost.setdefault(node, answer)
            continue
        try:
            snapshots[fleet.name(node)] = from_json(bytes(answer.snapshot))
        except UnreadableSnapshot as error:
            fleet.lost.setdefault(node, Lost("gpudoctor failed", str(error)))
    lost = tuple(
        Unexamined(id=finding.id, nodes=finding.nodes, problem=finding.problem)
        for finding in lost_findings(fleet, meaning="Nothing is known of it: it is not taken for healthy.")
    )
    return snapshots, lost
