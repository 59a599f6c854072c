"""`gpudoctor lint`."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from gpudoctor import bounded, cost, defaults
from gpudoctor.cli.options import (
    FIXED,
    FORM,
    VERIFIED,
    Facts,
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

if TYPE_CHECKING:
    from gpudoctor.lint.report import LintReport
    from gpudoctor.lint.several import JudgedFiles, JudgedStart
    from gpudoctor.lint.starts import StartFiles

COMMAND = "gpudoctor.lint.command"
Form = Literal["text", "short", "json", "sarif", "github"]


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
    files: Annotated[
        list[str] | None,
        argument(
            "FILE...|-|-- COMMAND...",
            "What to read, in any number: scripts, manifests, hostfiles, programs; a folder, of which what starts "
            "something is read; - is standard input.",
        ),
    ] = None,
    facts: Facts = None,
    framework_version: FrameworkVersion = None,
    env: Annotated[str | None, option("--env FILE", "Variables that are set before: NAME=value.")] = None,
    kind: Annotated[
        Literal["shell", "sbatch", "manifest", "hostfile", "python"] | None,
        option("--kind", "What the text is; default: what it looks like."),
    ] = None,
    python: Python = None,
    form: Annotated[Form, option("--format", FORM)] = "text",
    fix: Annotated[bool, option("--fix", FIXED)] = False,
    diff: Annotated[bool, option("--diff", "Print what --write would change, as a unified diff.")] = False,
    write: Annotated[bool, option("--write", "Change the files: put the corrected text in their place.")] = False,
    stdin_filename: Annotated[
        str | None, option("--stdin-filename NAME", "What to call standard input, and whose config holds for it.")
    ] = None,
    pass_over: Annotated[
        bool, option("--pass-over", "For hooks: pass over what starts nothing, also where it was named.")
    ] = False,
    no_follow: Annotated[
        bool,
        option("--no-follow", "Leave what is named and lies beside it; else it is read too."),
    ] = False,
    from_file: FromFile = None,
    json: Json = False,
    check: Annotated[bool, option("--check", VERIFIED)] = False,
    timeout: Timeout = defaults.READ_SECONDS,
    no_color: NoColor = False,
) -> None:
    """A comment `# gpudoctor: ignore[CODE] reason` silences a rule. [tool.gpudoctor.lint] in pyproject.toml, or [lint]
    in gpudoctor.toml, says for a repository what is known of its cluster and which rules are off."""
    form = "json" if json else form
    printed = [name for name, given in (("--fix", fix), ("--diff", diff), ("--write", write)) if given]
    if len(printed) > 1:
        raise BadInput("--fix, --diff and --write exclude each other")
    if (fix or diff) and form != "text":
        raise BadInput(f"{printed[0]} prints a text and --format {form} an answer; give one of them")
    command = context.meta.get(COMMAND)
    if from_file is not None:
        from gpudoctor.cli.files import saved_answer
        from gpudoctor.lint.report import LintReport

        if files or command is not None or printed or check or stdin_filename is not None:
            raise BadInput("--from shows a saved answer; without it, a text is read")
        report = saved_answer(from_file, LintReport)
        _show(report, None, form, no_color=no_color)
        raise typer.Exit(report.exit_status)
    _check_names(files, command, stdin_filename, printed)
    from gpudoctor.lint import asked
    from gpudoctor.lint.several import JudgedFiles, every_start

    cost.spend(bounded.SCRIPT)
    known = asked.asked_facts(facts, framework_version, env, python)

    def judge(start: "StartFiles", name: str = "") -> "JudgedStart":
        from gpudoctor.lint.beside import with_modules
        from gpudoctor.lint.several import judged

        if several and not no_follow:
            start = with_modules(start)
        # of several files --kind is about those that could be of that kind: a program beside a script stays one
        other = kind in ("shell", "sbatch", "slurm") and start.main.file.endswith((".py", ".yaml", ".yml", ".ipynb"))
        kind_of_it = None if several and other else kind
        done = judged(start, known, kind_of_it, name, corrections=fix or diff or write or form == "json")
        return _verified(done, timeout) if check else done

    several = command is None and bool(files) and (len(files or []) > 1 or pass_over or _is_folder(files))
    if several:
        if fix:
            raise BadInput("--fix prints one corrected text; --diff shows those of several, --write changes the files")
        from gpudoctor.lint.given import gathered

        judged_files = every_start(gathered(files or []), judge, pass_over=pass_over)
        report = judged_files.report
    else:
        start, name = _single(files[0] if files else "", command, stdin_filename)
        if not no_follow and stdin_filename is None and kind not in ("hostfile", "python"):
            from gpudoctor.lint.beside import typed, with_beside

            if start.main.file:
                start = with_beside(start.main)
            elif command is not None and (with_files := typed(command)).beside:
                start = with_files
        several = bool(start.beside)
        judged_files = JudgedFiles((judge(start, name),))
        report = judged_files.report if judged_files.starts[0].start.main.file else judged_files.starts[0].report
    if fix:
        _print_corrected(judged_files.starts[0])
    elif diff:
        _print_diff(judged_files)
    _show(report, judged_files, form, no_color=no_color, several=several, beside=fix or diff)
    if write:
        _write(judged_files, files or [])
    raise typer.Exit(report.exit_status)


def _check_names(files: list[str] | None, command: list[str] | None, stdin: str | None, printed: list[str]) -> None:
    if command is not None and files:
        raise BadInput(f"either the file {files[0]} or a command after --, not both")
    if command is not None and not command:
        raise BadInput("no command follows --")
    if command is None and not files:
        raise BadInput("what to read: gpudoctor lint FILE..., gpudoctor lint -, or gpudoctor lint -- COMMAND...")
    if files and "-" in files and len(files) > 1:
        raise BadInput("- is standard input, and is read alone")
    if stdin is not None and files != ["-"]:
        raise BadInput("--stdin-filename goes with -, which is standard input")
    if "--write" in printed and (command is not None or files == ["-"]):
        raise BadInput("--write changes files, and none was given; --fix prints the corrected text")


def _is_folder(files: list[str] | None) -> bool:
    return files is not None and len(files) == 1 and os.path.isdir(files[0])  # noqa: PTH112


def _single(file: str, command: list[str] | None, stdin: str | None) -> "tuple[StartFiles, str]":
    """One text, and what to call it where no file holds it."""
    from gpudoctor.lint import asked
    from gpudoctor.lint.starts import SourceFile, StartFiles

    if command is not None:
        return StartFiles(SourceFile("", asked.command_text(command))), "the command"
    name = stdin or ("" if file == "-" else file)
    shown = name or "standard input"
    return StartFiles(SourceFile(name, *asked.text_and_codec(file, shown))), shown


def _verified(done: "JudgedStart", timeout: float) -> "JudgedStart":
    from msgspec.structs import replace

    from gpudoctor.lint.seen import checked

    cost.stop()  # what it starts then needs memory of its own
    return replace(done, linted=checked(done.linted, timeout)) if done.linted is not None else done


def _show(
    report: "LintReport",
    files: "JudgedFiles | None",
    form: Form,
    *,
    no_color: bool,
    several: bool = False,
    beside: bool = False,
) -> None:
    """`found`: with the texts; None of a saved answer. `beside`: standard output has a text already."""
    if form in ("short", "github", "sarif"):
        from gpudoctor.render import lint_forms

        if form == "sarif":
            print(lint_forms.sarif(report))
        else:
            lines = lint_forms.short_lines(report) if form == "short" else lint_forms.github_lines(report)
            sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    from gpudoctor.render.lint import show_files, show_lint, show_report
    from gpudoctor.render.prose import console

    if form == "json" or files is None:
        answer(report, show_report, json=form == "json", no_color=no_color, saved=files is None)
    else:
        screen = console(no_color=no_color, file=sys.stderr if beside else None)
        if several:
            show_files(files, screen, with_corrections=not beside)
        elif (linted := files.starts[0].linted) is not None:
            show_lint(linted, screen, with_corrections=not beside)
    sys.stdout.flush()


def _print_corrected(done: "JudgedStart") -> None:
    """The text itself, for a file or a pipe; on a terminal, which would obey it, as it can be read there."""
    source = done.start.main
    _print_text(done.corrected.get(source.file, source.text))


def _print_diff(files: "JudgedFiles") -> None:
    from gpudoctor.lint.correct import unified

    for source, text in files.corrected():
        _print_text("".join(unified(source.file or "standard input", source.text, text)))


def _print_text(text: str) -> None:
    from gpudoctor.render.words import safe

    shown = safe(text, lines=True) if sys.stdout.isatty() else text
    print(shown, end="" if not shown or shown.endswith("\n") else "\n", flush=True)
    if shown != text:
        print("gpudoctor: control characters of the text are spelled out here; `> FILE` keeps them", file=sys.stderr)


def _write(files: "JudgedFiles", names: list[str]) -> None:
    """Every file that changes, or what kept it from that."""
    from gpudoctor.lint.correct import rewrite
    from gpudoctor.render.words import safe

    folders = [name for name in names if os.path.isdir(name)]  # noqa: PTH112
    for source, text in files.corrected():
        if source.is_followed:
            continue  # nobody named it: what would change is shown, and stays as it is
        inside = next((folder for folder in folders if source.file.startswith(os.path.normpath(folder) + os.sep)), None)
        rewrite(source, text, None if source.is_named else inside or ".")
        print(f"written: {safe(source.file)}", file=sys.stderr)
