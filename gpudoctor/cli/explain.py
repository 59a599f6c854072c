"""`gpudoctor explain`."""

import sys
from typing import Annotated

import typer

from gpudoctor import bounded, cost
from gpudoctor.cli.options import Json, NoColor, answer, argument
from gpudoctor.errors import BadInput

INTERRUPTED = 130


def explain(
    files: Annotated[
        list[str] | None,
        argument(
            "FILE...|-",
            "Logs, in any number: plain or compressed; a folder as torchrun --log-dir fills it; - is stdin.",
        ),
    ] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Exit status: 0 nothing wrong found, 1 something failed, 2 nothing could be read."""
    if not files:
        raise BadInput("which logs: gpudoctor explain FILE..., or COMMAND 2>&1 | gpudoctor explain -")
    from gpudoctor.explain.explain import Interrupted
    from gpudoctor.explain.explain import explain as explained
    from gpudoctor.explain.report import to_json
    from gpudoctor.render.explain import show_explanation
    from gpudoctor.render.words import safe

    cost.spend(bounded.LOG)
    interrupted = False
    try:
        seen = explained(files, stdin=sys.stdin.buffer)
    except Interrupted as stopped:
        seen, interrupted = stopped.explanation, True
    if not seen.files and not interrupted:
        file, reason = next(iter(seen.unreadable.items()))
        more = f" (and {len(seen.unreadable) - 1} more)" if len(seen.unreadable) > 1 else ""
        raise BadInput(f"{safe(file)}: {reason}{more}")
    if seen.lines or not interrupted:
        answer(seen, to_json if json else None, show_explanation, no_color=no_color)
    status = 1 if seen.causes or seen.unknown else 2 if seen.unreadable else 0
    raise typer.Exit(INTERRUPTED if interrupted else status)
