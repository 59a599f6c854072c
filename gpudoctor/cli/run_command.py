"""`gpudoctor run`. Not `run.py`: `gpudoctor.cli.run` is the function that runs any command line."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer.core import TyperCommand

from gpudoctor.cli.options import argument, finite, option
from gpudoctor.errors import Error


class NothingRun(Error):
    """Wrong usage: 1 and 2 are statuses that the command may end with, so ours is another."""

    status = 125


class AroundAnother(TyperCommand):
    """Takes its options from in front of the command; all other words are the command's, as they stand."""

    allow_interspersed_args = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            describe = getattr(error, "format_message", None)
            if describe is None:
                raise
            raise NothingRun(f"{describe()} (see 'gpudoctor run --help')") from None

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
        option("--preflight", "Before the start: lint and check, at most 5 s; full: torch is imported too."),
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
        Literal["report", "kill"],
        option("--on-stall", "When it stands still: say why, or also end it (SIGTERM, after two looks)."),
    ] = "report",
    quiet: Annotated[bool, option("-q --quiet", "Say nothing of our own.")] = False,
) -> None:
    """What gpudoctor says goes to standard error, and each line begins with "gpudoctor:"."""
    from gpudoctor.errors import BadInput
    from gpudoctor.run.run import RunWish
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
