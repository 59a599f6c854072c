"""`gpudoctor sbatch`."""

import os
import sys
import tempfile
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from gpudoctor import bounded, cost, programs
from gpudoctor.cli.options import FORCED, Facts, NoColor, option
from gpudoctor.errors import BadInput

WORDS = "gpudoctor.sbatch.words"


class PassingOn(TyperCommand):
    """Takes its own options from in front of the script; all other words are sbatch's, as they stand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from gpudoctor.lint.submission import taken_apart

        submitted = taken_apart(args)
        ctx.meta[WORDS] = submitted
        return super().parse_args(ctx, list(submitted.own))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS] [sbatch's options] [SCRIPT [ARGUMENTS]...]"]


CLASS = PassingOn


def sbatch(
    context: typer.Context,
    force: Annotated[bool, option("--force", FORCED)] = False,
    facts: Facts = None,
    no_color: NoColor = False,
) -> None:
    """Options of sbatch, script and arguments as for sbatch; what is said goes to standard error."""
    from gpudoctor.lint.asked import asked_facts
    from gpudoctor.lint.submission import ONLY_SAYS, judge
    from gpudoctor.render.prose import console, show
    from gpudoctor.render.submission import show_submission

    submitted = context.meta[WORDS]
    program = programs.find("sbatch")
    if program is None:
        raise BadInput("there is no sbatch on this machine; gpudoctor lint SCRIPT judges it anywhere")
    if submitted.names & {*ONLY_SAYS}:
        _become(program, submitted.passed, None)
    given = None
    if submitted.script is None and "wrap" not in submitted.names:
        try:
            given = bounded.contents("-", bounded.SCRIPT.size)
        except bounded.Refused as error:
            raise BadInput(f"standard input: {error}") from None
    cost.spend(bounded.SCRIPT)
    screen = console(no_color=no_color, file=sys.stderr)
    try:
        done = judge(submitted, asked_facts(facts, None, None, None), given)
    except BadInput as error:
        if not force:
            raise
        show(f"Not judged: {error}", screen)
        _become(program, submitted.passed, given)
    show_submission(done, screen)
    status = 1 if done.report.verdict == "bad" else 0
    if status and not force:
        show("Not submitted: it has an error. --force submits it all the same.", screen, style="bold red")
        raise typer.Exit(status)
    _become(program, submitted.passed, given)


def _become(program: str, words: tuple[str, ...], given: bytes | None) -> NoReturn:
    """sbatch in our place: its output, its prompts and its exit status are the user's."""
    cost.stop()
    if given is not None:
        script = tempfile.TemporaryFile()  # noqa: SIM115 - sbatch reads it when we are no more
        script.write(given)
        script.seek(0)
        os.dup2(script.fileno(), 0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        os.execv(program, ["sbatch", *words])
    except OSError as error:
        raise BadInput(f"{program}: {error.strerror or error}") from None
