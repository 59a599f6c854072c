"""`gpudoctor about`."""

from typing import Annotated

import typer

from gpudoctor.cli.options import NoColor


def _ids(incomplete: str) -> list[str]:
    """For the shell that completes."""
    from gpudoctor.about import entries

    return sorted(id for id in entries() if id.startswith(incomplete))


def about(
    id: Annotated[str, typer.Argument(metavar="ID", help="As it stands in brackets.", autocompletion=_ids)],
    no_color: NoColor = False,
) -> None:
    import difflib

    from gpudoctor.about import entries
    from gpudoctor.errors import BadInput
    from gpudoctor.render.about import show_about
    from gpudoctor.render.prose import console

    meanings = entries().get(id)
    if meanings is None:
        close = difflib.get_close_matches(id, entries(), 1)
        hint = f"did you mean {close[0]}?" if close else "`gpudoctor checks` lists the checks"
        raise BadInput(f"nothing has the id {ascii(id)[1:-1]} ({hint})")
    screen = console(no_color=no_color)
    for number, meaning in enumerate(meanings):
        if number:
            screen.print()
        show_about(meaning, screen)
