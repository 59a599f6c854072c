"""`gpudoctor check`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    Baseline,
    Deep,
    Exclude,
    Expect,
    FromFile,
    Hostfile,
    Hosts,
    Html,
    Json,
    NoColor,
    Nodes,
    NoTorch,
    Paste,
    Python,
    Redact,
    RemoteGpudoctor,
    Timeout,
    Verbose,
    answer,
    argument,
    check_html_of,
    exclusive,
    of_machine,
    option,
)
from gpudoctor.errors import BadInput, CannotTell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpudoctor.check import Check
    from gpudoctor.fleet.survey import Survey
    from gpudoctor.plugins import BrokenPlugin
    from gpudoctor.report import Report
    from gpudoctor.snapshot import Snapshot


def check(
    names: Annotated[list[str] | None, argument("[ID_OR_GROUP]...", "Only these checks or groups.")] = None,
    deep: Deep = False,
    python: Python = None,
    no_torch: NoTorch = False,
    expect: Expect = None,
    baseline: Baseline = None,
    from_file: FromFile = None,
    json: Json = False,
    paste: Paste = False,
    html: Html = None,
    redact: Redact = False,
    nagios: Annotated[bool, option("--nagios", "One line, and Nagios' exit status 0/1/2/3.")] = False,
    strict: Annotated[bool, option("--strict", "Warnings and skipped checks fail too.")] = False,
    timeout: Timeout = defaults.READ_SECONDS,
    verbose: Verbose = 0,
    no_color: NoColor = False,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    nodes: Nodes = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
) -> None:
    exclusive(json=json, paste=paste, nagios=nagios)
    check_html_of(html, redact=redact)
    wanted = None
    if expect is not None:
        from gpudoctor.expecting import expectation

        wanted = expectation(expect)  # a wrong one is said before anything is read
    earlier = None
    if baseline is not None and hosts is None and hostfile is None and nodes is None:
        from gpudoctor.cli.files import snapshot_from
        from gpudoctor.read.file import EMPTY

        earlier = snapshot_from(baseline, "--baseline")
        if earlier.origin == EMPTY:
            raise CannotTell(f"--baseline {baseline}: the file is empty")
    if hosts is not None or hostfile is not None or nodes is not None:
        if from_file is not None or deep or paste or nagios or baseline is not None:
            raise BadInput("--hosts, --hostfile and --nodes go with --json, --html, --redact and --strict only")
        from gpudoctor.fleet.where import Where
        from gpudoctor.render.progress import Progress
        from gpudoctor.several import surveyed

        where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor)
        with Progress(sys.stderr) as progress:
            seen, snapshots = surveyed(
                where,
                names or [],
                progress.waiting,
                python=python,
                torch=not no_torch,
                timeout=timeout,
                expect=wanted,
            )
        if html is not None:
            _write_page(html, seen, *snapshots.values(), strict=strict, redact=redact)
        _end(seen, json=json, strict=strict, no_color=no_color, verbose=verbose)
    if exclude is not None or remote_gpudoctor is not None:
        raise BadInput("--exclude and --remote-gpudoctor go with --hosts, --hostfile or --nodes")
    if from_file is not None and (deep or python is not None):
        raise BadInput("--from diagnoses a file; --deep and --python examine this machine")
    if from_file is not None:
        from gpudoctor.cli.files import snapshot_or
        from gpudoctor.envelope import Answer
        from gpudoctor.fleet.survey import Survey
        from gpudoctor.plugins import chosen_checks
        from gpudoctor.report import Report

        checks = chosen_checks(names or [])
        saved = snapshot_or(from_file, Report, Survey)
        if isinstance(saved, Answer):
            if names or expect is not None or nagios or paste or redact or baseline is not None:
                raise BadInput(f"--from {from_file}: it is an answer, which is shown as it is")
            assert isinstance(saved, (Report, Survey))
            if html is not None:
                _write_page(html, saved, strict=strict, saved=True)
            _end(saved, json=json, strict=strict, no_color=no_color, verbose=verbose, saved=True)
        snapshot = saved
    else:
        is_shown = not (json or nagios or paste) and sys.stdout.isatty()
        snapshot, checks = _examined(
            names or [], python, torch=not no_torch, deep=deep, timeout=timeout, is_shown=is_shown, no_color=no_color
        )
    from msgspec.structs import replace

    from gpudoctor.diagnose import diagnose
    from gpudoctor.snapshot import read

    if wanted is not None:
        snapshot = replace(snapshot, expected=read("--expect", wanted))
    every, broken = checks
    if baseline is not None and earlier is not None:
        from gpudoctor.compare.baseline import with_baseline

        snapshot, more = with_baseline(snapshot, earlier, baseline)
        every = [*more, *every]
    report = of_machine(diagnose(snapshot, every, broken, names=names or []), snapshot)
    if html is not None:
        _write_page(html, report, snapshot, strict=strict, redact=redact)
    if nagios:
        from gpudoctor.render.nagios import line

        print(line(report, strict=strict))
        raise typer.Exit(report.nagios_status(strict=strict))
    if paste:
        from gpudoctor.render.paste import markdown

        print(markdown(report, snapshot))
    else:
        _end(report, snapshot, json=json, strict=strict, no_color=no_color, verbose=verbose)
    raise typer.Exit(report.status(strict=strict))


def _end(
    found: "Report | Survey",
    snapshot: "Snapshot | None" = None,
    *,
    json: bool,
    strict: bool,
    no_color: bool,
    verbose: int,
    saved: bool = False,
) -> NoReturn:
    from gpudoctor.report import Report

    def show(found: "Report | Survey", screen: Any) -> None:
        if isinstance(found, Report):
            from gpudoctor.render.terminal import show_report

            show_report(found, snapshot, screen, verbose)
        else:
            from gpudoctor.render.fleet import show_survey

            show_survey(found, screen, verbose)

    status = found.status(strict=strict)
    answer(found, show, json=json, no_color=no_color, status=status, saved=saved)
    raise typer.Exit(status)


def _write_page(
    path: str,
    found: "Report | Survey",
    *snapshots: "Snapshot",
    strict: bool,
    redact: bool = False,
    saved: bool = False,
) -> None:
    """`snapshots`: those of the machines that it speaks of, as far as they are there."""
    from gpudoctor.cli.files import write
    from gpudoctor.report import Report

    status = found.status(strict=strict)
    if redact:
        from gpudoctor.redact import Pseudonyms

        names = Pseudonyms(found, *snapshots)
        found, snapshots = names.structure(found), tuple(map(names.structure, snapshots[:1]))
    if isinstance(found, Report):
        from gpudoctor.render.html.check import check_page

        content = check_page(found, snapshots[0] if snapshots else None, status=status, hidden=redact)
    else:
        from gpudoctor.render.html.fleet import survey_page

        content = survey_page(found, status=status, saved=saved, hidden=redact)
    write(path, content, "--html")


def _examined(
    names: "Sequence[str]",
    python: str | None,
    *,
    torch: bool,
    deep: bool,
    timeout: float,
    is_shown: bool,
    no_color: bool,
) -> "tuple[Snapshot, tuple[list[Check], list[BrokenPlugin]]]":
    """This machine, and the checks, which are loaded while it is read.

    `is_shown`: what they find is on the terminal as soon as it is known, until the report takes its place.
    """
    from gpudoctor.examination import examine_machine
    from gpudoctor.render.progress import Progress

    loaded: list[tuple[list[Check], list[BrokenPlugin]]] = []

    def meanwhile() -> None:
        from gpudoctor.plugins import chosen_checks

        loaded.append(chosen_checks(names))
        if not shows_early:
            import gpudoctor.render.terminal  # noqa: F401 - is needed next

    with Progress(sys.stderr, at_most=None if deep else timeout, no_color=no_color) as progress:
        shows_early = is_shown and progress.is_shown

        def early(known: "Snapshot") -> None:
            from gpudoctor.diagnose import diagnose

            progress.found([problem for _, problem in diagnose(known, loaded[0][0]).problems])
            import gpudoctor.render.terminal  # noqa: F401 - is needed next, and not for the first finding

        snapshot = examine_machine(
            python=python,
            torch=torch,
            deep=deep,
            timeout=timeout,
            waiting=progress.waiting,
            meanwhile=meanwhile,
            early=early if shows_early else None,
        )
    return snapshot, loaded[0]
