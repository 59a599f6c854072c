"""`gpudoctor check`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    Deep,
    Exclude,
    FromFile,
    Json,
    NamesFile,
    NoColor,
    NoTorch,
    Paste,
    Python,
    RemoteGpudoctor,
    SlurmNodes,
    Timeout,
    answer,
    argument,
    exclusive,
    option,
)
from gpudoctor.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpudoctor.check import Check
    from gpudoctor.plugins import BrokenPlugin
    from gpudoctor.snapshot import Snapshot


def check(
    names: Annotated[list[str] | None, argument("[ID_OR_GROUP]...", "Only these checks or groups.")] = None,
    deep: Deep = False,
    python: Python = None,
    no_torch: NoTorch = False,
    from_file: FromFile = None,
    json: Json = False,
    paste: Paste = False,
    nagios: Annotated[bool, option("--nagios", "One line, and Nagios' exit status 0/1/2/3.")] = False,
    strict: Annotated[bool, option("--strict", "Warnings and skipped checks fail too.")] = False,
    timeout: Timeout = defaults.READ_SECONDS,
    no_color: NoColor = False,
    hosts: Annotated[str | None, option("--hosts NAMES", "These nodes, through ssh: 'n[01-16]'.")] = None,
    hostfile: NamesFile = None,
    nodes: SlurmNodes = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
) -> None:
    exclusive(json=json, paste=paste, nagios=nagios)
    if hosts is not None or hostfile is not None or nodes is not None:
        if from_file is not None or deep or paste or nagios:
            raise BadInput("--hosts, --hostfile and --nodes go with --json and --strict only")
        from gpudoctor.fleet.survey import to_json as survey_to_json
        from gpudoctor.fleet.where import Where
        from gpudoctor.render.fleet import show_survey
        from gpudoctor.render.progress import Progress
        from gpudoctor.several import survey

        where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor)
        with Progress(sys.stderr) as progress:
            seen = survey(where, names or [], progress.waiting, python=python, torch=not no_torch, timeout=timeout)
        answer(seen, survey_to_json if json else None, show_survey, no_color=no_color)
        raise typer.Exit(seen.exit_status(strict=strict))
    if exclude is not None or remote_gpudoctor is not None:
        raise BadInput("--exclude and --remote-gpudoctor go with --hosts, --hostfile or --nodes")
    if from_file is not None and (deep or python is not None):
        raise BadInput("--from diagnoses a file; --deep and --python examine this machine")
    if from_file is not None:
        from gpudoctor.cli.files import snapshot_from
        from gpudoctor.plugins import chosen_checks

        checks = chosen_checks(names or [])
        snapshot = snapshot_from(from_file)
    else:
        snapshot, checks = _examined(names or [], python, torch=not no_torch, deep=deep, timeout=timeout)
    from gpudoctor.diagnose import diagnose, unseen

    report = diagnose(snapshot, *checks)
    if nagios:
        from gpudoctor.render.nagios import line

        blind = unseen(snapshot, report)
        print(line(report, strict=strict, unseen=blind))
        raise typer.Exit(report.nagios_status(strict=strict, is_blind=bool(blind)))
    if paste:
        from gpudoctor.render.paste import markdown

        print(markdown(report, snapshot))
    else:
        from gpudoctor.render.terminal import show_report
        from gpudoctor.report import to_json

        answer(
            report,
            to_json if json else None,
            lambda report, screen: show_report(report, snapshot, screen),
            no_color=no_color,
        )
    raise typer.Exit(report.exit_status(strict=strict))


def _examined(
    names: "Sequence[str]", python: str | None, *, torch: bool, deep: bool, timeout: float
) -> "tuple[Snapshot, tuple[list[Check], list[BrokenPlugin]]]":
    """This machine, and the checks, which are loaded while it is read."""
    from gpudoctor.examination import examine_machine
    from gpudoctor.render.progress import Progress

    loaded: list[tuple[list[Check], list[BrokenPlugin]]] = []

    def meanwhile() -> None:
        from gpudoctor.plugins import chosen_checks

        loaded.append(chosen_checks(names))
        import gpudoctor.render.terminal  # noqa: F401 - is needed next

    with Progress(sys.stderr) as progress:
        snapshot = examine_machine(
            python=python, torch=torch, deep=deep, timeout=timeout, waiting=progress.waiting, meanwhile=meanwhile
        )
    return snapshot, loaded[0]
