"""`gpudoctor check` on several machines at once."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.cli.fleets import Where, standing_fleet

if TYPE_CHECKING:
    from gpudoctor.fleet.fleet import Fleet, Lost
    from gpudoctor.fleet.messages import Examined
    from gpudoctor.fleet.survey import Survey, Unexamined
    from gpudoctor.snapshot import Snapshot

REACH_SECONDS = 20.0
"""As for the bandwidth test: a dead node is given up after this. Our rule of thumb."""
ANSWER_SECONDS = 10.0
"""On top of --timeout: starting the readers, and the way of the answers."""


class Asked(NamedTuple):
    """What every node is asked."""

    names: Sequence[str]
    """Of checks and groups; none: all."""
    python: str | None = None
    torch: bool = True
    timeout: float = 10.0


def survey(fleet: "Fleet", asked: Asked) -> "Survey":
    """Examine all nodes of the fleet, which the caller closes, and ask every check about each."""
    from gpudoctor import __version__
    from gpudoctor.cli.check import load
    from gpudoctor.diagnose import diagnose
    from gpudoctor.fleet.compare import differences
    from gpudoctor.fleet.messages import Examine, Examined
    from gpudoctor.fleet.reach import reach
    from gpudoctor.fleet.survey import Survey, folded_problems, folded_reasons
    from gpudoctor.render.progress import Progress

    started = time.monotonic()
    checks, broken = load(asked.names)
    with Progress(sys.stderr) as progress:
        reach(
            fleet,
            timeout=REACH_SECONDS,
            on_change=lambda found: progress.waiting(
                [fleet.name(n) for n in range(len(fleet.nodes)) if n not in found]
            ),
        )
        order = Examine(torch=asked.torch, python=asked.python or "", brief=False, timeout=asked.timeout)
        answers = (
            fleet.ask(
                order,
                Examined,
                timeout=asked.timeout + ANSWER_SECONDS,
                of=fleet.present,
                waiting=lambda nodes: progress.waiting([fleet.name(node) for node in nodes]),
            )
            if fleet.present
            else {}
        )
    snapshots, unexamined = _sorted_out(fleet, answers)
    reports = {name: diagnose(snapshot, checks, broken) for name, snapshot in snapshots.items()}
    return Survey(
        gpudoctor=__version__,
        reached_by=fleet.how,
        nodes=tuple(node.name for node in fleet.nodes),
        examined=tuple(snapshots),
        unexamined=unexamined,
        differences=differences(snapshots),
        problems=folded_problems(
            (name, result.check, problem) for name, report in reports.items() for result, problem in report.problems
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
        seconds=round(time.monotonic() - started, 3),
    )


def _sorted_out(
    fleet: "Fleet", answers: "dict[int, Examined | Lost]"
) -> "tuple[dict[str, Snapshot], tuple[Unexamined, ...]]":
    """The snapshots by node, and the nodes without one."""
    from gpudoctor.fleet.fleet import Lost
    from gpudoctor.fleet.survey import Unexamined
    from gpudoctor.nccl.lost import lost_findings
    from gpudoctor.snapshot import UnreadableSnapshot, from_json

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
        Unexamined(id=found.id, nodes=found.nodes, problem=found.problem)
        for found in lost_findings(fleet, meaning="Nothing is known of it: it is not taken for healthy.")
    )
    return snapshots, lost


def check_hosts(where: Where, asked: Asked, *, json: bool, strict: bool, no_color: bool) -> int:
    """The whole command; the exit status. Raises `BadInput`."""
    import os

    from gpudoctor.cli.check import load

    load(asked.names)  # a misspelt check is said before any node is reached
    with standing_fleet(where, os.environ) as fleet:
        found = survey(fleet, asked)
        fleet.dismiss()
    if json:
        from gpudoctor.fleet.survey import to_json
        from gpudoctor.render.words import shown_json

        print(shown_json(to_json(found)))
    else:
        from gpudoctor.render.fleet import show_survey
        from gpudoctor.render.prose import console

        show_survey(found, console(no_color=no_color))
    return found.exit_status(strict=strict)
