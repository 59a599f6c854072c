"""`gpudoctor run`. Not `run.py`: `gpudoctor.cli.run` is the function that runs any command line."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from typer.core import TyperCommand

from gpudoctor.cli.commands import in_words
from gpudoctor.cli.options import argument, finite, option
from gpudoctor.errors import Error

VARIABLE = "GPUDOCTOR_RUN"
"""Options for each run, as they are typed."""
SETTINGS_SECONDS = 5.0
NO_SETTINGS = ("--help", "--print-sbatch")


class NothingRun(Error):
    """Wrong usage: 1 and 2 are statuses that the command may end with, so ours is another."""

    status = 125


@contextmanager
def of_usage(source: str) -> Iterator[None]:
    """Wrong usage is ours, and says who has said it."""
    try:
        yield
    except Exception as error:
        describe = getattr(error, "format_message", None)
        if describe is None:
            raise
        raise NothingRun(f"{source}{in_words(describe()).rstrip('.')} (see 'gpudoctor run --help')") from None


class AroundAnother(TyperCommand):
    """Takes its options from in front of the command; all other words are the command's, as they stand."""

    allow_interspersed_args = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        before = self._said_before(ctx)
        for source, words in before.items():  # each alone, so that it is named where its value is wrong
            self._parsed(self.context_class(self), [*words, "true"], f"{source}: ")
        return self._parsed(ctx, [*(word for words in before.values() for word in words), *args], "")

    def _parsed(self, ctx: Any, words: list[str], source: str) -> list[str]:
        with of_usage(source):
            return super().parse_args(ctx, words)

    def _said_before(self, ctx: Any) -> dict[str, list[str]]:
        """Options of the repository's settings and of the environment, as if they had been typed first, by who says
        them."""
        import shlex

        from gpudoctor.errors import BadInput
        from gpudoctor.knowledge.wording import listed
        from gpudoctor.read.system import within
        from gpudoctor.settings import nearest

        try:
            config = within(SETTINGS_SECONDS, "this folder", lambda: nearest(Path.cwd(), "run"))
            typed = shlex.split(os.environ.get(VARIABLE, ""))
        except BadInput as error:
            raise NothingRun(str(error)) from None
        except ValueError as error:
            raise NothingRun(f"{VARIABLE}: {error}") from None
        except (OSError, RuntimeError):  # the folder is gone, or on a mount that does not answer; no more threads
            config, typed = None, []
        with of_usage(f"{VARIABLE}: "):
            said, *_ = self.make_parser(ctx).parse_args([*typed])
        if "--" in typed or said.get("command") or said.get("help") or said.get("print_sbatch"):
            raise NothingRun(f"{VARIABLE} holds options of each run, and neither a command nor {listed(NO_SETTINGS)}")
        before = {VARIABLE: typed} if typed else {}
        if config is None:
            return before
        return {f"{config.path} {config.name}": self._as_words(config.path, config.name, config.content), **before}

    def _as_words(self, path: str, name: str, table: Any) -> list[str]:
        kinds: dict[str, Any] = {"SECONDS": int | float}
        options = {
            word.removeprefix("--"): bool
            if getattr(parameter, "is_flag", False)
            else kinds.get(parameter.metavar or "", str)
            for parameter in self.params
            for word in parameter.opts
            if word.startswith("--") and word not in NO_SETTINGS
        }
        words: list[str] = []
        for key, value in table.items() if isinstance(table, dict) else [(repr(table), None)]:
            kind = options.get(key)
            if kind is None:
                known = ", ".join(sorted(options))
                raise NothingRun(f"{path}: {name} {ascii(key)[:60]} is not known; known: {known}")
            if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
                wanted = {bool: "true or false", str: "a text"}.get(kind, "a number")
                raise NothingRun(f"{path}: {name} {key} is {ascii(value)[:60]}; it takes {wanted}")
            words += ([f"--{key}"] if value else []) if kind is bool else [f"--{key}", str(value)]
        return words

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS] -- COMMAND [ARGUMENTS]..."]


def finite_or_none(seconds: float | None) -> float | None:
    """Of an option in seconds that need not be given."""
    return None if seconds is None else finite(seconds)


CLASS = AroundAnother


def run(
    command: Annotated[list[str], argument("COMMAND...", "The command that you would have typed, as it is.")],
    report: Annotated[
        Path | None, option("--report DIR", "Keep the report of this run below DIR, not below ~/.local/state.")
    ] = None,
    no_log: Annotated[
        bool, option("--no-log", "Leave the command's output alone: nothing of it is kept or explained.")
    ] = False,
    preflight: Annotated[
        Literal["full", "short", "none"],
        option(
            "--preflight",
            "Before the start: lint, check, the ways between nodes; at most 5 s. full: torch is imported too.",
        ),
    ] = "short",
    stop_on_error: Annotated[
        bool,
        option("--stop-on-error", "Start nothing where that finds an error; else it is shown, and the job starts."),
    ] = False,
    no_arm: Annotated[
        bool, option("--no-arm", "Leave the environment alone: ranks are not prepared to be read when they hang.")
    ] = False,
    stall: Annotated[
        float | None,
        option(
            "--stall SECONDS",
            "Look whether it stands still after so much silence; 0 never. Default: 120, and longer where it is silent "
            "for longer and gets on.",
            least=0,
            most=86400,
            check=finite_or_none,
        ),
    ] = None,
    on_stall: Annotated[
        Literal["report", "dump", "kill", "restart-hint"],
        option(
            "--on-stall",
            "When it stands still: say why; dump: flight recorders too; kill: end it too (SIGTERM, after two looks); "
            "restart-hint: whether and where to start it again too.",
        ),
    ] = "report",
    print_sbatch: Annotated[
        bool, option("--print-sbatch", "Start nothing: print a batch script for SLURM that starts it so on each node.")
    ] = False,
    quiet: Annotated[bool, option("-q --quiet", "Say nothing of our own.")] = False,
) -> None:
    """What gpudoctor says goes to standard error, and each line begins with "gpudoctor:"."""
    from gpudoctor.errors import BadInput

    if print_sbatch:
        from gpudoctor.library import lint
        from gpudoctor.run.batch import script

        said = {"--report": report, "--stall": stall, "--on-stall": on_stall, "--preflight": preflight}
        plain = {"--report": None, "--stall": None, "--on-stall": "report", "--preflight": "short"}
        flags = {"--no-log": no_log, "--stop-on-error": stop_on_error, "--no-arm": no_arm, "--quiet": quiet}
        options = [word for name, value in said.items() if value != plain[name] for word in (name, str(value))]
        text = script(command, [*options, *(name for name, value in flags.items() if value)])
        sys.stdout.write(text)
        for problem in lint(text, kind="sbatch").problems:
            if problem.severity == "error":  # of the command: it is not altered
                code = f"[{problem.rule} {problem.code}]"
                sys.stderr.write(f"gpudoctor: line {problem.line}: {problem.summary}  {code}; {problem.fix.text}\n")
        return
    from gpudoctor.run.record import RunWish
    from gpudoctor.run.run import run as attended

    try:
        attended(
            RunWish(
                command=tuple(command),
                report=report,
                log=not no_log,
                quiet=quiet,
                arm=not no_arm,
                preflight=preflight,
                stop_on_error=stop_on_error,
                stall=stall,
                on_stall=on_stall,
            )
        )
    except BadInput as error:
        raise NothingRun(str(error)) from None
