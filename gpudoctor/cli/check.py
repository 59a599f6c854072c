"""`gpudoctor check`."""

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpudoctor.cli.options import Deep, FromFile, NoColor, NoTorch, Python, Timeout

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.plugins import BrokenPlugin
    from gpudoctor.report import Report
    from gpudoctor.snapshot import Snapshot


def check(
    names: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Argument(metavar="[ID_OR_GROUP]...", help="Only these checks or groups.", show_default=False),
    ] = None,
    deep: Deep = False,
    python: Python = None,
    no_torch: NoTorch = False,
    from_file: FromFile = None,
    json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    paste: Annotated[bool, typer.Option("--paste", help="For an issue: markdown, private names hidden.")] = False,
    nagios: Annotated[bool, typer.Option("--nagios", help="One line, and Nagios' exit status 0/1/2/3.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings and skipped checks fail too.")] = False,
    timeout: Timeout = 10.0,
    no_color: NoColor = False,
) -> None:
    """Is this machine ready to train? Problems first, each with a fix to paste."""
    from gpudoctor.cli.errors import UsageProblem

    if sum((json, paste, nagios)) > 1:
        raise UsageProblem("--json, --paste and --nagios exclude each other")
    if from_file is not None and (deep or python is not None):
        raise UsageProblem("--from diagnoses a file; --deep and --python examine this machine")

    installed: list[tuple[list[Check], list[BrokenPlugin]]] = []

    def prepare() -> None:
        from gpudoctor.cli.selection import select
        from gpudoctor.plugins import find_checks

        found, broken = find_checks()
        installed.append((select(found, names or []), [] if names else broken))
        import gpudoctor.diagnose
        import gpudoctor.render.terminal  # noqa: F401 - loaded while the children work

    if from_file is None:
        from gpudoctor.cli.live import examine_machine

        snapshot = examine_machine(python=python, torch=not no_torch, deep=deep, timeout=timeout, meanwhile=prepare)
    else:
        from gpudoctor.cli.files import snapshot_from

        prepare()
        snapshot = snapshot_from(from_file)

    from gpudoctor.diagnose import diagnose

    checks, broken = installed[0]
    report = diagnose(snapshot, checks, broken)
    _print(report, snapshot, json=json, paste=paste, nagios=nagios, no_color=no_color)
    raise typer.Exit(report.nagios_status() if nagios else report.exit_status(strict=strict))


def _print(report: "Report", snapshot: "Snapshot", *, json: bool, paste: bool, nagios: bool, no_color: bool) -> None:
    if json:
        from gpudoctor.report import to_json

        print(to_json(report).decode())
    elif nagios:
        from gpudoctor.render.nagios import line

        print(line(report))
    elif paste:
        from gpudoctor.render.paste import markdown

        print(markdown(report, snapshot))
    else:
        from gpudoctor.render.prose import console
        from gpudoctor.render.terminal import show_report

        show_report(report, snapshot, console(no_color=no_color))
