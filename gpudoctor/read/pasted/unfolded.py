"""A table of nvidia-smi that a chat or a browser made one line of -> its lines again.

Where line breaks became blanks, rules and bars still tell the rows: between two rules each row has the same number of
cells, and between the last bar of a row and the first of the next nothing stands but blanks.
"""

from collections.abc import Iterator

from gpudoctor.lazy import lazy_re

TITLE = lazy_re(r"\|\s{0,80}NVIDIA-SMI\s")
RULE = lazy_re(r"\+-{2,200}(?:\+-{2,200}){0,4}\+|\|[-=]{2,200}(?:\+[-=]{2,200}){0,4}[|+]")
MOST_BARS = 4
"""A line of the table has no more of them."""
LONGEST = 200_000
"""Characters of a line that is looked at; sixteen GPUs with a hundred processes are a tenth of it."""
WIDTHS = (3, 4, 5)
"""Cells of a row of the GPUs; of a MIG device's; of the heading of these."""
ONE_CELL = lazy_re(r"NVIDIA-SMI\s|Processes:|MIG devices:|\bPID\b|No running|\d\s+[CGM](?:\+[CGM])*\s+\S")
"""What stands in the rows that have no bars inside: the title, and the box of processes."""


def unfolded(text: str) -> str:
    """The text, with such lines taken apart; every other as it was."""
    if "NVIDIA-SMI" not in text:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line))


def _pieces(line: str) -> Iterator[str]:
    if line.count("|") <= MOST_BARS or len(line) > LONGEST or TITLE.search(line) is None or RULE.search(line) is None:
        yield line
        return
    place = 0
    for rule in RULE.finditer(line):
        yield from _rows(line[place : rule.start()])
        yield rule[0]
        place = rule.end()
    yield from _rows(line[place:])


def _rows(segment: str) -> Iterator[str]:
    """What stands between two rules. Words before its first bar and behind its last are somebody's own."""
    before, bar, inside = segment.partition("|")
    if before.strip():
        yield before.strip()
    if not bar:
        return
    cells = inside.split("|")
    behind = cells.pop()
    width = 1 if ONE_CELL.search(inside) else next((width for width in WIDTHS if _fits(cells, width)), WIDTHS[0])
    for start in range(0, len(cells), width + 1):
        row = cells[start : start + width]
        yield f"|{'|'.join(row)}|"
    if behind.strip():
        yield behind.strip()


def _fits(cells: list[str], width: int) -> bool:
    """Whole rows, and nothing between them."""
    return len(cells) % (width + 1) == width and not any(cell.strip() for cell in cells[width :: width + 1])
