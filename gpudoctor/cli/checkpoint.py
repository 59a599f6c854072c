"""`gpudoctor checkpoint`."""

import sys
from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import NoColor, Python
from gpudoctor.errors import BadInput


def checkpoint(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .pt, .pth, .bin, .ckpt or .safetensors file.")],
    fix: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Option(
            "--fix", metavar="OUT", help="Write the state dict, with plain names, to OUT.", show_default=False
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write OUT even if it becomes eight times as large as FILE.")
    ] = False,
    like: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--like", metavar="FILE", help="Compare its keys with a model that FILE has.", show_default=False),
    ] = None,
    key: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--key", metavar="KEY", help="Which state dict, where it has several.", show_default=False),
    ] = None,
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor.")] = False,
    no_values: Annotated[
        bool, typer.Option("--no-values", help="Names and shapes only; numbers are not read.")
    ] = False,
    python: Python = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, max=3600, help="End when it gets no further for so long."),
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    no_color: NoColor = False,
) -> None:
    """What is in this checkpoint, and what will loading it say? Runs nothing that is in it.

    Exit status: 1 when its weights cannot be used as they are, 2 when it cannot be read.
    """
    for name, value in (("FILE", file), ("--fix", fix), ("--like", like), ("--key", key)):
        if value is not None and (not value or "\0" in value):
            raise BadInput(f"{name}: a name is missing")
    if force and fix is None:
        raise BadInput("--force goes with --fix")
    if file == "-":
        raise BadInput("a checkpoint is read at many places, which standard input does not allow; name a file")
    from gpudoctor.checkpoint.examine import FileWish
    from gpudoctor.checkpoint.run import run
    from gpudoctor.checkpoint.unreadable import BadFile
    from gpudoctor.render.progress import Progress
    from gpudoctor.render.words import safe

    path = _interpreter(python) if fix is not None else ""
    wish = FileWish(file, like=like or "", key=key or "", values=not no_values, out=fix or "", force=force)
    try:
        with Progress(sys.stderr) as progress:
            report = run(wish, python=path, patience=timeout, waiting=progress.waiting)
    except BadFile as error:
        said = str(error)
        raise BadInput(safe(said if said.startswith("--") else f"{file}: {said}")) from None
    if json:
        from gpudoctor.checkpoint.report import to_json
        from gpudoctor.render.words import shown_json

        print(shown_json(to_json(report)))
    else:
        from gpudoctor.render.checkpoint import show_checkpoint
        from gpudoctor.render.prose import console

        show_checkpoint(report, console(no_color=no_color), every_tensor=tensors)
    raise typer.Exit(report.exit_status)


def _interpreter(wanted: str | None) -> str:
    import os

    from gpudoctor.read.interpreter import NoSuchInterpreter, choose

    try:
        return choose(wanted, os.environ).path
    except NoSuchInterpreter as error:
        raise BadInput(str(error)) from None
