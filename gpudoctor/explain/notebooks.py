"""A traceback as IPython writes it, in notebooks and in Colab, as Python itself would have written it."""

from gpudoctor.lazy import lazy_re

HEADER = lazy_re(r"^(?P<type>[A-Za-z_][\w.]{0,80}) {2,}Traceback \(most recent call last\)\s*$")
FRAME = lazy_re(
    r"^(?:File )?(?P<file>(?:[~/.\\]|[A-Za-z]:\\|<)[^\n]{0,300}?)(?::(?P<line>\d{1,7}))?,? in "
    r"(?P<function>[\w.<>]{1,100})"
    r"(?:\([^\n]{0,300}\)?)?:?\s*$"
)
CELL = lazy_re(
    r"^(?P<file>Cell In ?\[\d{1,5}\]|Input In \[\d{1,5}\]), line \d{1,7}(?:, in (?P<function>[\w.<>]{1,100})\S*)?\s*$"
)
OLD_CELL = lazy_re(r"^(?P<file>Input In \[\d{1,5}\]), in (?P<function><cell line: \d{1,5}>|[\w.<>]{1,100})\S*\s*$")
ARROW = lazy_re(r"^-{1,6}> ?(?P<line>\d{1,7}) ?(?P<code>[^\n]*)$")
CONTEXT = lazy_re(r"^\s*\d{1,7}(?: [^\n]*)?$|^\s*(?:\(\.\.\.\)|\.\.\.|\d{1,4} frames)\s*$|^-{10,}\s*$|^\s*$")
RAISED = lazy_re(r"^[A-Za-z_][\w.]{0,120}(?:: |:?\s*$)")


def from_notebook(lines: list[str]) -> tuple[list[str], list[int]] | None:
    """The lines as Python writes them, and the number that each had; None where there is no such traceback."""
    if not any(HEADER.match(line) for line in lines):
        return None
    written: list[str] = []
    numbers: list[int] = []
    file = function = ""
    inside = False
    for number, line in enumerate(lines, 1):
        if HEADER.match(line):
            inside, text = True, ["Traceback (most recent call last):"]
        elif not inside:
            text = [line]
        elif place := FRAME.match(line) or CELL.match(line) or OLD_CELL.match(line):
            file, function, text = place["file"], place["function"] or "<module>", []
        elif (arrow := ARROW.match(line)) and file:
            text = [f'  File "{file}", line {arrow["line"]}, in {function}', f"    {arrow['code'].strip()}"]
        elif CONTEXT.match(line):
            text = []
        else:
            inside, text = not RAISED.match(line), [line]
        written += text
        numbers += [number] * len(text)
    return written, numbers
