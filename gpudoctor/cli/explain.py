"""`gpudoctor explain`."""

import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpudoctor import bounded, cost
from gpudoctor.cli.options import NoColor
from gpudoctor.errors import BadInput

if TYPE_CHECKING:
    from gpudoctor.explain.report import Explanation

INTERRUPTED = 130


def explain(
    files: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Argument(
            metavar="FILE...|-",
            help="Logs, in any number: plain or compressed; a folder as torchrun --log-dir fills it; - is stdin.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    no_color: NoColor = False,
) -> None:
    """Why did this job fail? Reads logs: NCCL's, tracebacks, watchdogs, torchrun, Slurm, dmesg.

    Exit status: 0 nothing wrong found, 1 something failed, 2 nothing could be read.
    """
    if not files:
        raise BadInput("which logs: gpudoctor explain FILE..., or COMMAND 2>&1 | gpudoctor explain -")
    from gpudoctor.explain.explain import Interrupted
    from gpudoctor.explain.explain import explain as explained

    cost.spend(bounded.LOG)
    try:
        answer = explained(files, stdin=sys.stdin.buffer)
    except Interrupted as stopped:
        if stopped.explanation.lines:
            _print(stopped.explanation, json=json, no_color=no_color)
        raise typer.Exit(INTERRUPTED) from None
    if not answer.files:
        from gpudoctor.render.words import safe

        file, reason = next(iter(answer.unreadable.items()))
        more = f" (and {len(answer.unreadable) - 1} more)" if len(answer.unreadable) > 1 else ""
        raise BadInput(f"{safe(file)}: {reason}{more}")
    _print(answer, json=json, no_color=no_color)
    if answer.causes or answer.unknown:
        raise typer.Exit(1)
    if answer.unreadable:
        raise typer.Exit(2)


def _print(answer: "Explanation", *, json: bool, no_color: bool) -> None:
    if json:
        from gpudoctor.explain.report import to_json
        from gpudoctor.render.words import shown_json

        print(shown_json(to_json(answer)))
        return
    from gpudoctor.render.explain import show_explanation
    from gpudoctor.render.prose import console

    show_explanation(answer, console(no_color=no_color))
