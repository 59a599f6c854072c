"""`gpudoctor check`."""

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpudoctor.cli.options import Deep, Exclude, FromFile, NoColor, NoTorch, Python, RemoteGpudoctor, Timeout

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    hosts: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option("--hosts", metavar="NAMES", help="These nodes, through ssh: 'n[01-16]'.", show_default=False),
    ] = None,
    hostfile: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option("--hostfile", metavar="FILE", help="The nodes that a file names, one a line.", show_default=False),
    ] = None,
    nodes: Annotated[
        Optional[int],  # noqa: UP045 - as above
        typer.Option("--nodes", metavar="N", min=1, help="So many nodes of the Slurm allocation.", show_default=False),
    ] = None,
    exclude: Exclude = None,
    remote_gpudoctor: RemoteGpudoctor = None,
) -> None:
    """Is this machine ready to train? Problems first, each with a fix to paste. Or several: --hosts."""
    from gpudoctor.errors import BadInput

    if sum((json, paste, nagios)) > 1:
        raise BadInput("--json, --paste and --nagios exclude each other")
    if hosts is not None or hostfile is not None or nodes is not None:
        if from_file is not None or deep or paste or nagios:
            raise BadInput("--hosts, --hostfile and --nodes go with --json and --strict only")
        from gpudoctor.cli.check_hosts import Asked, check_hosts
        from gpudoctor.cli.fleets import Where

        asked = Asked(names or [], python=python, torch=not no_torch, timeout=timeout)
        where = Where(
            nodes=nodes,
            hosts=hosts,
            hostfile=hostfile,
            exclude=exclude or "",
            remote_gpudoctor=remote_gpudoctor or "",
        )
        raise typer.Exit(check_hosts(where, asked, json=json, strict=strict, no_color=no_color))
    if exclude is not None or remote_gpudoctor is not None:
        raise BadInput("--exclude and --remote-gpudoctor go with --hosts, --hostfile or --nodes")
    if from_file is None:
        report, snapshot = _examined(names or [], python=python, torch=not no_torch, deep=deep, timeout=timeout)
    elif deep or python is not None:
        raise BadInput("--from diagnoses a file; --deep and --python examine this machine")
    else:
        report, snapshot = _recorded(names or [], from_file)
    if nagios:
        from gpudoctor.diagnose import unseen
        from gpudoctor.render.nagios import line

        blind = unseen(snapshot, report)
        print(line(report, strict=strict, unseen=blind))
        raise typer.Exit(report.nagios_status(strict=strict, is_blind=bool(blind)))
    _print(report, snapshot, json=json, paste=paste, no_color=no_color)
    raise typer.Exit(report.exit_status(strict=strict))


def _examined(
    names: "Sequence[str]",
    *,
    python: str | None,
    torch: bool,
    deep: bool,
    timeout: float,
) -> "tuple[Report, Snapshot]":
    """This machine's report; the checks are loaded while it is read."""
    from gpudoctor.cli.live import examine_machine

    loaded: list[tuple[list[Check], list[BrokenPlugin]]] = []

    def meanwhile() -> None:
        loaded.append(load(names))
        import gpudoctor.render.terminal  # noqa: F401 - is needed next

    snapshot = examine_machine(python=python, torch=torch, deep=deep, timeout=timeout, meanwhile=meanwhile)
    from gpudoctor.diagnose import diagnose

    return diagnose(snapshot, *loaded[0]), snapshot


def _recorded(names: "Sequence[str]", path: str) -> "tuple[Report, Snapshot]":
    """The report of a machine in a file."""
    from gpudoctor.cli.files import snapshot_from
    from gpudoctor.diagnose import diagnose

    checks, broken = load(names)
    snapshot = snapshot_from(path)
    return diagnose(snapshot, checks, broken), snapshot


def load(names: "Sequence[str]") -> "tuple[list[Check], list[BrokenPlugin]]":
    """The checks that were asked for, and, when all were, what could not be loaded."""
    from gpudoctor.cli.selection import select
    from gpudoctor.plugins import find_checks

    found, broken = find_checks()
    return select(found, names), [] if names else broken


def _print(report: "Report", snapshot: "Snapshot", *, json: bool, paste: bool, no_color: bool) -> None:
    if json:
        from gpudoctor.render.words import shown_json
        from gpudoctor.report import to_json

        print(shown_json(to_json(report)))
    elif paste:
        from gpudoctor.render.paste import markdown

        print(markdown(report, snapshot))
    else:
        from gpudoctor.render.prose import console
        from gpudoctor.render.terminal import show_report

        show_report(report, snapshot, console(no_color=no_color))
