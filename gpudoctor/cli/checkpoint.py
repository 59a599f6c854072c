"""`gpudoctor checkpoint`."""

import os
import sys
from typing import Annotated

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import Json, NoColor, Python, answer, argument, option
from gpudoctor.errors import BadInput


def checkpoint(
    file: Annotated[str, argument("FILE", "A .pt, .pth, .bin, .ckpt or .safetensors file.")],
    fix: Annotated[str | None, option("--fix OUT", "Write the state dict, with plain names, to OUT.")] = None,
    force: Annotated[bool, option("--force", "Write OUT even if it becomes eight times as large as FILE.")] = False,
    like: Annotated[str | None, option("--like FILE", "Compare its keys with a model that FILE has.")] = None,
    key: Annotated[str | None, option("--key KEY", "Which state dict, where it has several.")] = None,
    tensors: Annotated[bool, option("--tensors", "List every tensor.")] = False,
    no_values: Annotated[bool, option("--no-values", "Names and shapes only; numbers are not read.")] = False,
    python: Python = None,
    timeout: Annotated[
        float, option("--timeout SECONDS", "End when it gets no further for so long.", least=1, most=3600)
    ] = defaults.STALL_SECONDS,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Exit status: 1 when its weights cannot be used as they are, 2 when it cannot be read."""
    for name, value in (("FILE", file), ("--fix", fix), ("--like", like), ("--key", key)):
        if value is not None and (not value or "\0" in value):
            raise BadInput(f"{name}: a name is missing")
    if force and fix is None:
        raise BadInput("--force goes with --fix")
    if file == "-":
        raise BadInput("a checkpoint is read at many places, which standard input does not allow; name a file")
    from gpudoctor.checkpoint.examine import FileWish
    from gpudoctor.checkpoint.report import to_json
    from gpudoctor.checkpoint.run import run
    from gpudoctor.checkpoint.unreadable import BadFile
    from gpudoctor.read.interpreter import choose
    from gpudoctor.render.checkpoint import show_checkpoint
    from gpudoctor.render.progress import Progress
    from gpudoctor.render.words import safe

    path = choose(python, os.environ).path if fix is not None else ""
    wish = FileWish(file, like=like or "", key=key or "", values=not no_values, out=fix or "", force=force)
    try:
        with Progress(sys.stderr) as progress:
            report = run(wish, python=path, patience=timeout, waiting=progress.waiting)
    except BadFile as error:
        said = str(error)
        raise BadInput(safe(said if said.startswith("--") else f"{file}: {said}")) from None
    answer(
        report,
        to_json if json else None,
        lambda report, screen: show_checkpoint(report, screen, every_tensor=tensors),
        no_color=no_color,
    )
    raise typer.Exit(report.exit_status)
