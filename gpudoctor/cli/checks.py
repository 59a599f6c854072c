"""`gpudoctor checks`."""

import sys
from typing import Annotated, Optional

import typer

from gpudoctor.cli.options import NoColor


def checks(
    name: Annotated[
        Optional[str],  # noqa: UP045 - typer on Python 3.10 reads it
        typer.Argument(metavar="[ID_OR_GROUP]", help="Describe this check, or all of this group.", show_default=False),
    ] = None,
    no_color: NoColor = False,
) -> None:
    """List all checks, or describe one."""
    from gpudoctor.cli.selection import select
    from gpudoctor.plugins import find_checks
    from gpudoctor.render.prose import console
    from gpudoctor.render.terminal import show_check, show_checks
    from gpudoctor.render.words import safe

    found, broken = find_checks()
    screen = console(no_color=no_color)
    if name is None:
        show_checks(found, screen)
    else:
        for number, check in enumerate(select(found, [name])):
            if number:
                screen.print()
            show_check(check, screen)
    for plugin in broken:
        print(f"gpudoctor: plugin {safe(plugin.name)}: {safe(plugin.reason)}", file=sys.stderr)
