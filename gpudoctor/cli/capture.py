"""`gpudoctor capture`."""

from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import Deep, NoTorch, Python, Timeout
from gpudoctor.errors import BadInput


def capture(
    output: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; default: standard output."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Hide hostnames, users, addresses, UUIDs, serials and home paths.")
    ] = False,
    deep: Deep = False,
    python: Python = None,
    no_torch: NoTorch = False,
    timeout: Timeout = 10.0,
    pid: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--pid", metavar="P", min=1, help="The stuck job of this process instead.", show_default=False),
    ] = None,
    job: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--job", metavar="ID", help="A stuck job instead, as `hang --job`.", show_default=False),
    ] = None,
    hosts: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--hosts", metavar="LIST", help="With --job: its nodes, by ssh.", show_default=False),
    ] = None,
) -> None:
    """Write what was read from this machine as JSON, to be diagnosed elsewhere with `check --from`.

    With --pid or --job: what was read of a stuck job, for `hang --from`.
    """
    from gpudoctor.cli.files import check_writable, write

    of_job = pid is not None or job is not None
    if of_job and (deep or python is not None or no_torch):
        raise BadInput("--pid and --job read a job; --deep, --python and --no-torch examine the machine")
    if hosts is not None and job is None:
        raise BadInput("--hosts goes with --job")
    if pid is not None and job is not None:
        raise BadInput("--pid and --job exclude each other")
    if output is not None and output != "-":
        check_writable(output)
    content = (
        _of_job(pid, job, hosts, redact)
        if of_job
        else _of_machine(python, torch=not no_torch, deep=deep, timeout=timeout, redact=redact)
    )
    if output is None or output == "-":
        from gpudoctor.render.words import shown_json

        print(shown_json(content), end="")
    else:
        write(output, content)


def _of_machine(python: str | None, *, torch: bool, deep: bool, timeout: float, redact: bool) -> bytes:
    from gpudoctor.cli.live import examine_machine

    snapshot = examine_machine(python=python, torch=torch, deep=deep, timeout=timeout)
    if redact:
        from gpudoctor.redact import redact as hide

        snapshot = hide(snapshot)
    from gpudoctor.snapshot import to_json

    return to_json(snapshot, indent=2) + b"\n"


def _of_job(pid: int | None, job: str | None, hosts: str | None, redact: bool) -> bytes:
    from gpudoctor.cli.fleets import Where
    from gpudoctor.cli.hang_run import Asked, examine
    from gpudoctor.snapshot.evidence import to_json

    evidence = examine(Where(hosts=hosts), Asked(pid=pid, job=job))
    if redact:
        from gpudoctor.redact import Pseudonyms

        evidence = Pseudonyms(evidence).structure(evidence)
    return to_json(evidence) + b"\n"
