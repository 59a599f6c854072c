"""`gpudoctor diff`."""

from typing import Annotated, NoReturn

import typer

from gpudoctor.cli.options import FromFile, Json, NoColor, answer, argument
from gpudoctor.errors import BadInput


def diff(
    before: Annotated[str | None, argument("A", "The earlier capture, or one machine's.")] = None,
    after: Annotated[str | None, argument("B", "The later capture, or the other machine's.")] = None,
    from_file: FromFile = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """A and B are files that check --from reads; one of them may be -, standard input."""
    if from_file is not None:
        _again(from_file, before, json=json, no_color=no_color)
    if before is None or after is None:
        raise BadInput("name two captures: gpudoctor diff A B")
    if before == after == "-":
        raise BadInput("standard input holds one capture; name a file for the other")
    from gpudoctor.cli.files import snapshot_from
    from gpudoctor.compare.report import DiffSide, diff
    from gpudoctor.plugins import find_checks
    from gpudoctor.render.diff import show_diff
    from gpudoctor.render.words import machine_line

    machines = snapshot_from(before, "A"), snapshot_from(after, "B")
    sides = [
        DiffSide(name, machine_line(machine), machine.taken_at.value_or(""))
        for name, machine in zip((before, after), machines, strict=True)
    ]
    report = diff(*machines, (sides[0], sides[1]), find_checks()[0])
    answer(report, show_diff, json=json, no_color=no_color)
    raise typer.Exit(report.exit_status)


def _again(path: str, capture: str | None, *, json: bool, no_color: bool) -> NoReturn:
    """What --json has written, shown."""
    from gpudoctor.cli.files import saved_answer
    from gpudoctor.compare.report import DiffReport
    from gpudoctor.render.diff import show_diff

    if capture is not None:
        raise BadInput("--from shows an answer that --json has written; it takes no captures")
    report = saved_answer(path, DiffReport)
    answer(report, show_diff, json=json, no_color=no_color)
    raise typer.Exit(report.exit_status)
