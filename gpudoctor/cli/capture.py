"""`gpudoctor capture`."""

from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import Deep, NoTorch, Python, Timeout


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
) -> None:
    """Write what was read from this machine as JSON, to be diagnosed elsewhere with `check --from`."""
    from gpudoctor.cli.files import check_writable, write
    from gpudoctor.cli.live import examine_machine

    if output is not None and output != "-":
        check_writable(output)
    snapshot = examine_machine(python=python, torch=not no_torch, deep=deep, timeout=timeout)
    if redact:
        from gpudoctor.redact import redact as hide

        snapshot = hide(snapshot)
    from gpudoctor.snapshot import to_json

    content = to_json(snapshot, indent=2) + b"\n"
    if output is None or output == "-":
        print(content.decode(), end="")
    else:
        write(output, content)
