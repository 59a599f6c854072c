"""A notebook (.ipynb) -> the Python text of its code cells, of the same length and lines, so that places stay."""

import json
import re

from gpudoctor.lazy import lazy_re

LINE = lazy_re(r"^[ \t\[]*(\"(?:[^\"\\]|\\.)*\")[ \t]*,?[ \t\]]*(?:[},][^\n]*)?$")
SOURCE = lazy_re(r"\"source\"\s*:\s*\[")
CELL = lazy_re(r"\"cell_type\"\s*:\s*\"(\w+)\"")


def looks_like_notebook(text: str) -> bool:
    return text.lstrip()[:1] == "{" and '"cells"' in text and '"cell_type"' in text and '"source"' in text


def as_python(text: str) -> str:
    """Every line of a code cell stands where its string stands; all else is blank."""
    lines = []
    inside = False
    kind = ""
    for line in text.split("\n"):
        cell = CELL.search(line)
        kind = cell[1] if cell is not None else kind
        start = SOURCE.search(line)
        inside = inside or start is not None
        string = LINE.match(line[start.end() :] if start is not None else line) if inside else None
        code = _code(string[1]) if string is not None and kind == "code" else ""
        lines.append(code.ljust(len(line)) if len(code) <= len(line) else " " * len(line))
        if inside and re.search(r"\][ \t]*[,}]?[^\"]*$", line[start.end() :] if start is not None else line):
            inside = False
    return "\n".join(lines)


def _code(string: str) -> str:
    try:
        line: str = json.loads(string)
    except ValueError:
        return ""
    line = line.rstrip("\n")
    return "" if "\n" in line or line.lstrip().startswith(("!", "%", "?")) else line
