"""`gpudoctor lint`."""

import sys
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from gpudoctor import bounded, cost, defaults
from gpudoctor.cli.options import (
    FIXED,
    VERIFIED,
    FrameworkVersion,
    FromFile,
    Json,
    NoColor,
    Python,
    Timeout,
    answer,
    argument,
    option,
)
from gpudoctor.errors import BadInput

COMMAND = "gpudoctor.lint.command"


class WithCommand(TyperCommand):
    """Keeps the words after `--` apart: they are a command to read, and not the name of a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


CLASS = WithCommand


def lint(
    context: typer.Context,
    file: Annotated[str | None, argument("FILE|-|-- COMMAND...", "What to read; - is standard input.")] = None,
    facts: Annotated[
        str | None,
        option("--facts LIST", "What the text does not tell: nodes=2,gpus_per_node=4,torch=2.4,lightning=1.9."),
    ] = None,
    framework_version: FrameworkVersion = None,
    env: Annotated[str | None, option("--env FILE", "Variables that are set before: NAME=value.")] = None,
    kind: Annotated[
        Literal["shell", "sbatch", "manifest", "hostfile", "python"] | None,
        option("--kind", "What the text is; default: what it looks like."),
    ] = None,
    python: Python = None,
    fix: Annotated[bool, option("--fix", FIXED)] = False,
    from_file: FromFile = None,
    json: Json = False,
    check: Annotated[bool, option("--check", VERIFIED)] = False,
    timeout: Timeout = defaults.READ_SECONDS,
    no_color: NoColor = False,
) -> None:
    if fix and json:
        raise BadInput("--fix prints a text and --json an answer that holds it; give one of them")
    from gpudoctor.lint import asked
    from gpudoctor.render.lint import show_lint, show_report

    if from_file is not None:
        from gpudoctor.cli.files import saved_answer
        from gpudoctor.lint.report import LintReport

        if file is not None or COMMAND in context.meta or fix or check:
            raise BadInput("--from shows a saved answer; without it, a text is read")
        report = saved_answer(from_file, LintReport)
        answer(report, show_report, json=json, no_color=no_color, saved=True)
        raise typer.Exit(report.exit_status)
    text, name = _text(file, context.meta.get(COMMAND))
    cost.spend(bounded.SCRIPT)
    known = asked.facts_of(text, facts, framework_version, env, python)
    seen = asked.lint(text, known, kind=kind, name=name)
    if check:
        cost.stop()  # what it starts then needs memory of its own
        from gpudoctor.lint.seen import checked

        seen = checked(seen, timeout)
    report = seen.report
    if fix:
        from gpudoctor.render.prose import console

        _print_corrected(seen.corrected)
        show_lint(seen, console(no_color=no_color, file=sys.stderr), with_corrections=False)
    else:
        answer(
            report,
            lambda _, screen: show_lint(seen, screen, with_corrections=True),
            json=json,
            no_color=no_color,
        )
    raise typer.Exit(report.exit_status)


def _print_corrected(text: str) -> None:
    """The text itself, for a file or a pipe; on a terminal, which would obey it, as it can be read there."""
    from gpudoctor.render.words import safe

    shown = safe(text, lines=True) if sys.stdout.isatty() else text
    print(shown, end="" if shown.endswith("\n") else "\n", flush=True)
    if shown != text:
        print("gpudoctor: control characters of the text are spelled out here; `> FILE` keeps them", file=sys.stderr)


def _text(file: str | None, command: list[str] | None) -> tuple[str, str]:
    """The text to read, and what to call it."""
    from gpudoctor.lint.asked import command_text, text_of

    if command is not None:
        if file is not None:
            raise BadInput(f"either the file {file} or a command after --, not both")
        if not command:
            raise BadInput("no command follows --")
        return command_text(command), "the command"
    if file is None:
        raise BadInput("what to read: gpudoctor lint FILE, gpudoctor lint -, or gpudoctor lint -- COMMAND...")
    name = "standard input" if file == "-" else file
    cost.spend(bounded.SCRIPT)
    return text_of(file, name), name
