"""A notebook (.ipynb) -> the Python text of its code cells, or the shell text of its `!` lines, of the same length and
lines, so that places stay."""

import json
import re
from collections.abc import Callable, Iterator

from gpudoctor.lazy import lazy_re

LINE = lazy_re(r"^[ \t\[]*(\"(?:[^\"\\]|\\.)*\")[ \t]*,?[ \t\]]*(?:[},][^\n]*)?$")
SOURCE = lazy_re(r"\"source\"\s*:\s*\[")
CELL = lazy_re(r"\"cell_type\"\s*:\s*\"(\w+)\"")


STARTS = lazy_re(
    r"\"[ \t]*![ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+|cd[ \t]+[^\"&;\s]+[ \t]*&&[ \t]*){0,9}"
    r"(?:torchrun|accelerate launch|deepspeed|horovodrun|mpirun|llamafactory-cli|tune run"
    r"|python3? -m torch\.distributed)\b"
)
"""A line of a cell by which a launcher is started."""
MARKED = lazy_re(r"[ \t]*!(?P<shell>.*)|[ \t]*%(?P<magic>cd|env|set_env)[ \t]+(?P<rest>.*)")
SETS = lazy_re(r"[ \t]*os\.environ\[([\"'])(\w+)\1\][ \t]*=[ \t]*([\"'][^\"']*[\"'])[ \t]*$", re.ASCII)
HOLDS_NOTHING = lazy_re(r"(?:cd|export)\b[^;&|]*$")
"""A command whose effect ends with its shell, which is that of its line."""


def looks_like_notebook(text: str) -> bool:
    return text.lstrip()[:1] == "{" and '"cells"' in text and '"cell_type"' in text and '"source"' in text


def as_it_is_run(text: str) -> str:
    """As shell where a line starts a launcher, else as Python. Every line of a code cell stands where its string
    stands; all else is blank."""
    return _lines(text, _Shell() if STARTS.search(text) is not None else _code)


def command_lines(text: str) -> Iterator[tuple[int, str]]:
    """The `!` lines, each with the number of its line from 0."""
    for number, line in enumerate(_lines(text, _bang).split("\n")):
        if line.strip():
            yield number, line.strip()


def _lines(text: str, reading: Callable[[str], str]) -> str:
    lines = []
    inside = False
    kind = ""
    for line in text.split("\n"):
        cell = CELL.search(line)
        kind = cell[1] if cell is not None else kind
        start = SOURCE.search(line)
        inside = inside or start is not None
        string = LINE.match(line[start.end() :] if start is not None else line) if inside else None
        code = reading(string[1]) if string is not None and kind == "code" else ""
        # in front of a backslash at the end no blank may stand behind it
        lines.append(code.rjust(len(line)) if code.endswith("\\") else code.ljust(len(line))[: len(line)])
        if inside and re.search(r"\][ \t]*[,}]?[^\"]*$", line[start.end() :] if start is not None else line):
            inside = False
    return "\n".join(lines)


def _line(string: str) -> str:
    try:
        line: str = json.loads(string)
    except ValueError:
        return ""
    line = line.rstrip("\n")
    return "" if "\n" in line or len(line) > len(string) - 2 else line


def _code(string: str) -> str:
    line = _line(string)
    return "" if line.lstrip().startswith(("!", "%", "?")) else line


def _bang(string: str) -> str:
    match = MARKED.match(_line(string))
    return match["shell"] if match is not None and match["shell"] else ""


class _Shell:
    """What a line does for the commands of the lines behind it: each `!` is a shell of its own."""

    def __init__(self) -> None:
        self.goes_on = False

    def __call__(self, string: str) -> str:
        line = _line(string)
        match = MARKED.match(line)
        told = ""
        if self.goes_on:
            told = line
        elif match is not None and match["magic"]:
            told = f"{'cd' if match['magic'] == 'cd' else 'export'} {match['rest']}"
        elif match is not None and not HOLDS_NOTHING.match(match["shell"].strip()):
            told = match["shell"]
        elif (sets := SETS.match(line)) is not None:
            told = f"export {sets[2]}={sets[3]}"
        self.goes_on = bool(told) and line.endswith("\\")
        told = re.sub(r"(?<![$\w{])\{(\w+)\}", r"$(\1)", told)  # a value of Python's
        return told if len(told) <= len(string) else ""
