"""`gpudoctor lint`."""

import re
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer
from typer.core import TyperCommand

from gpudoctor import bounded, cost
from gpudoctor.cli.options import NoColor, Python, Timeout
from gpudoctor.errors import BadInput

if TYPE_CHECKING:
    from gpudoctor.lint.model import LintFacts

COMMAND = "gpudoctor.lint.command"
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*\+?=)(.*)", re.ASCII | re.DOTALL)

Kind = Literal["shell", "sbatch", "manifest", "hostfile", "python"]


class WithCommand(TyperCommand):
    """Keeps the words after `--` apart: they are a command to read, and not the name of a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def lint(
    context: typer.Context,
    file: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Argument(metavar="FILE|-|-- COMMAND...", help="What to read; - is standard input.", show_default=False),
    ] = None,
    facts: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--facts",
            metavar="LIST",
            help="What the text does not tell: nodes=2,gpus_per_node=4,torch=2.4,lightning=1.9.",
            show_default=False,
        ),
    ] = None,
    framework_version: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--framework-version", metavar="V", help="As if V were installed.", show_default=False),
    ] = None,
    env: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--env", metavar="FILE", help="Variables that are set before: NAME=value.", show_default=False),
    ] = None,
    kind: Annotated[
        Optional[Kind],  # noqa: UP045
        typer.Option("--kind", help="What the text is; default: what it looks like.", show_default=False),
    ] = None,
    python: Python = None,
    fix: Annotated[bool, typer.Option("--fix", help="Print the corrected text; problems go to stderr.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Also ask this machine: name, address, port.")] = False,
    timeout: Timeout = 10.0,
    no_color: NoColor = False,
) -> None:
    """What a launch command, script, sbatch file, hostfile or manifest will do, and what to write instead.

    Exit status 1 when it has errors.
    """
    if fix and json:
        raise BadInput("--fix prints a text and --json an answer that holds it; give one of them")
    text, name = _text(file, context.meta.get(COMMAND))
    known = _facts(facts, framework_version, env, python, text)
    from gpudoctor.lint.lint import linted
    from gpudoctor.lint.read import UnreadableText, read_job
    from gpudoctor.lint.rule import every_rule

    try:
        job = read_job(text, known, kind)
    except UnreadableText as error:
        raise BadInput(f"{name}: {error}") from None
    rules = every_rule()
    answer = linted(job, rules)
    if check:
        cost.stop()  # what it starts then needs memory of its own
        from gpudoctor.cli.lint_check import checked

        answer = checked(answer, rules, timeout)
    report = answer.report
    if json:
        from gpudoctor.lint.report import to_json
        from gpudoctor.render.words import shown_json

        print(shown_json(to_json(report)))
    else:
        from gpudoctor.render.lint import show_lint
        from gpudoctor.render.prose import console

        if fix:
            _print_corrected(answer.corrected)
        show_lint(answer, console(no_color=no_color, file=sys.stderr if fix else None), with_corrections=not fix)
    if report.verdict == "bad":
        raise typer.Exit(1)


def _print_corrected(text: str) -> None:
    """The text itself, for a file or a pipe; on a terminal, which would obey it, as it can be read there."""
    from gpudoctor.render.words import safe

    shown = safe(text, lines=True) if sys.stdout.isatty() else text
    print(shown, end="" if shown.endswith("\n") else "\n", flush=True)
    if shown != text:
        print("gpudoctor: control characters of the text are spelled out here; `> FILE` keeps them", file=sys.stderr)


def _text(file: str | None, command: list[str] | None) -> tuple[str, str]:
    """The text to read, and what to call it."""
    if command is not None:
        if file is not None:
            raise BadInput(f"either the file {file} or a command after --, not both")
        if not command:
            raise BadInput("no command follows --")
        return command_text(command), "the command"
    if file is None:
        raise BadInput("what to read: gpudoctor lint FILE, gpudoctor lint -, or gpudoctor lint -- COMMAND...")
    name = "standard input" if file == "-" else file
    return _decoded(_bytes(file, name), name), name


def command_text(words: list[str]) -> str:
    """Words of a command line as a shell reads them back; a single word is a line that was quoted as a whole."""
    if len(words) == 1:
        return words[0] + "\n"
    written: list[str] = []
    in_front = True
    for word in words:
        assigned = ASSIGNMENT.fullmatch(word) if in_front else None
        in_front = assigned is not None
        written.append(assigned[1] + shlex.quote(assigned[2]) if assigned else shlex.quote(word))
    return " ".join(written) + "\n"


def _bytes(file: str, name: str) -> bytes:
    cost.spend(bounded.SCRIPT)
    try:
        return bounded.contents(file, bounded.SCRIPT.size)
    except bounded.Refused as error:
        hint = "; a command is given after --: gpudoctor lint -- torchrun ..." if "no such file" in str(error) else ""
        raise BadInput(f"{name}: {error}{hint if ' ' in file else ''}") from None


def _decoded(raw: bytes, name: str) -> str:
    for mark, codec in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):  # Windows PowerShell's >
        if raw.startswith(mark):
            return raw[2:].decode(codec, "replace")
    if b"\0" in raw:
        raise BadInput(f"{name} is no text: it holds zero bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _facts(given: str | None, version: str | None, env: str | None, python: str | None, text: str) -> "LintFacts":
    """--facts, then --framework-version, then what is installed for the training."""
    from msgspec import structs

    from gpudoctor.lint.facts import FactsProblem, installed, merged, parse_facts, read_env_file
    from gpudoctor.lint.model import LintFacts

    try:
        known = parse_facts(given) if given is not None else LintFacts()
    except FactsProblem as error:
        raise BadInput(f"--facts {given}: {error}") from None
    if version is not None:
        if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}([a-z+.][a-z0-9.+]{0,30})?", version, re.ASCII):
            raise BadInput(f"--framework-version {version}: no version, such as 1.9.5")
        name = framework_named(text)
        known = structs.replace(
            known, versions={name: version, **known.versions}, given=tuple(dict.fromkeys((*known.given, name)))
        )
    if env is not None:
        try:
            variables = read_env_file(_decoded(_bytes(env, f"--env {env}"), f"--env {env}"))
        except FactsProblem as error:
            raise BadInput(f"--env {env}: {error}") from None
        known = structs.replace(known, variables={**variables, **known.variables})
    return merged(known, LintFacts(versions=installed(_interpreter(python))))


def _interpreter(wanted: str | None) -> str:
    import os

    from gpudoctor.read.interpreter import NoSuchInterpreter, choose

    try:
        return choose(wanted, os.environ).path
    except NoSuchInterpreter as error:
        raise BadInput(str(error)) from None


def framework_named(text: str) -> str:
    """Which package --framework-version is of: that of the launcher in the text; Lightning for plain python."""
    from gpudoctor.launcher import registry

    for launcher in registry.every():
        names = [name for form in launcher.forms for name in (*form.programs, *form.modules)]
        if (
            not launcher.bare
            and names
            and re.search(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])", text)
        ):
            return launcher.package or "torch"
    return "lightning"
