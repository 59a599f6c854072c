"""`gpudoctor checkpoint`."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import FIXED, FORCED, WAITED, FromFile, Json, NoColor, Python, answer, argument, option
from gpudoctor.errors import BadInput

if TYPE_CHECKING:
    from gpudoctor.checkpoint.report import CheckpointReport


def checkpoint(
    file: Annotated[str | None, argument("FILE", "A .pt, .pth, .bin, .ckpt or .safetensors file.")] = None,
    fix: Annotated[str | None, option("--fix OUT", FIXED)] = None,
    force: Annotated[bool, option("--force", FORCED)] = False,
    like: Annotated[str | None, option("--like FILE", "Compare its keys with a model that FILE has.")] = None,
    key: Annotated[str | None, option("--key KEY", "Which state dict, where it has several.")] = None,
    tensors: Annotated[bool, option("--tensors", "List every tensor.")] = False,
    no_values: Annotated[bool, option("--no-values", "Names and shapes only; numbers are not read.")] = False,
    python: Python = None,
    timeout: Annotated[float, option("--timeout SECONDS", WAITED, least=1, most=3600)] = defaults.STALL_SECONDS,
    from_file: FromFile = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    if from_file is not None:
        if file is not None or fix is not None or like is not None or key is not None:
            raise BadInput("--from shows a saved answer; without it, a checkpoint is read")
        from gpudoctor.checkpoint.report import CheckpointReport
        from gpudoctor.cli.files import saved_answer

        _end(saved_answer(from_file, CheckpointReport), json=json, tensors=tensors, no_color=no_color, saved=True)
    if file is None:
        raise BadInput("which checkpoint: gpudoctor checkpoint FILE")
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
    from gpudoctor.read.interpreter import choose
    from gpudoctor.render.progress import Progress
    from gpudoctor.render.words import safe

    path = choose(python, os.environ).path if fix is not None else ""
    wish = FileWish(file, like=like or "", key=key or "", values=not no_values, out=fix or "", force=force)
    try:
        with Progress(sys.stderr) as progress:
            report = run(wish, python=path, patience=timeout, waiting=progress.waiting)
    except BadFile as error:
        said = str(error)
        raise type(error)(safe(said if said.startswith("--") else f"{file}: {said}")) from None
    _end(report, json=json, tensors=tensors, no_color=no_color)


def _end(report: "CheckpointReport", *, json: bool, tensors: bool, no_color: bool, saved: bool = False) -> NoReturn:
    from gpudoctor.render.checkpoint import show_checkpoint

    answer(
        report,
        lambda report, screen: show_checkpoint(report, screen, every_tensor=tensors),
        json=json,
        no_color=no_color,
        saved=saved,
    )
    raise typer.Exit(report.exit_status)
