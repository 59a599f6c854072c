"""The commands as typer runs them: only the one that is called is loaded."""

import difflib
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpudoctor import __version__
from gpudoctor.cli.commands import ABOUT, COMMANDS, HIDDEN, MODULES, help_text
from gpudoctor.cli.statuses import STATUSES, sentence

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyCommands(TyperGroup):
    """Looks a command up when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        summary = {**COMMANDS, **HIDDEN}.get(cmd_name)
        if summary is None:
            return None
        identifier = cmd_name.replace("-", "_")
        module = import_module(f"gpudoctor.cli.{MODULES.get(cmd_name, identifier)}")
        function = getattr(module, identifier)
        text = f"{summary}\n\n{getdoc(function) or ''}"
        statuses = sentence(cmd_name) if cmd_name in STATUSES else None
        # rich_markup_mode=None: plain help costs half the CPU time of a rich one, and pastes better.
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name, cls=getattr(module, "CLASS", None), help=text, epilog=statuses)(function)
        return typer.main.get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS and name not in HIDDEN:
            close = difflib.get_close_matches(name, COMMANDS, 1)
            ctx.fail(f"no command is called {name!r}" + (f"; the nearest is {close[0]!r}" if close else ""))
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: Any) -> str:
        return help_text()


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gpudoctor {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="gpudoctor",
    cls=LazyCommands,
    help=ABOUT,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings=CONTEXT,
)


@app.callback()
def gpudoctor(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version)] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(help_text())
