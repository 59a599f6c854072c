"""`gpudoctor checks`."""

import sys
from typing import Annotated

from gpudoctor.cli.options import Json, NoColor, argument


def checks(
    name: Annotated[str | None, argument("[ID_OR_GROUP]", "Describe this check, or all of this group.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    from gpudoctor.plugins import find_checks, select
    from gpudoctor.render.prose import console
    from gpudoctor.render.terminal import show_check, show_checks
    from gpudoctor.render.words import safe

    every, broken = find_checks()
    if json:
        from gpudoctor.envelope import encode
        from gpudoctor.plugins import listed

        print(encode(listed(select(every, [name]) if name is not None else every)).decode())
        return
    screen = console(no_color=no_color)
    if name is None:
        show_checks(every, screen)
    for number, check in enumerate(select(every, [name]) if name is not None else ()):
        if number:
            screen.print()
        show_check(check, screen)
    for plugin in broken:
        print(f"gpudoctor: plugin {safe(plugin.name)}: {safe(plugin.reason)}", file=sys.stderr)
