"""What an id means -> terminal."""

from rich.console import Console
from rich.text import Text

from gpudoctor.about import Entry, advised
from gpudoctor.knowledge.wording import listed
from gpudoctor.render.prose import show, show_paragraphs
from gpudoctor.render.terminal import show_fix


def show_about(entry: Entry, screen: Console) -> None:
    """The id and what it is, in words; then what to do, and which ids belong to it."""
    screen.print(Text.assemble((entry.id, "bold green"), f"  ({entry.kind})"))
    show(entry.title, screen)
    show_paragraphs(entry.text, screen)
    if advice := advised(entry):
        screen.print()
        show("What it advises, by what it sees:", screen)
    for line in advice:
        show(f"- {line}", screen, indent=2)
    if entry.fix is not None:
        screen.print()
        show_fix(entry.fix, screen)
    if entry.more:
        screen.print()
        show(f"See also: {listed(entry.more)}", screen)
