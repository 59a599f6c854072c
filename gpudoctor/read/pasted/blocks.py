"""A text that people pasted -> the lines of each tool in it: split at the tools' headings and at shell prompts."""

import re
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted.part import LONGEST_LINE, Pasted

MARGIN = " \t>"
"""Indentation and marks of quoting, which may stand before every line."""
PROMPT = lazy_re(r"(?:\([^()\s]{1,40}\) ?)?\[?(?:[\w.-]*@[\w.-].*|[\w.-]*)|(?:PS )?[A-Z]:\\.*")
"""What stands before the sign by which a shell waits, or was told something."""
LONGEST_PROMPT = 150
FENCE = lazy_re(r"(?:```|~~~)[\w-]*")
OTHERS = lazy_re(r"=+NVSMI LOG=+|<nvidia_smi_log\b|<\?xml |#{20,}|=== .{1,80} ===")
"""Where output begins that other readers read, or a title that somebody wrote between outputs."""


Patterns = Mapping[str, re.Pattern[str]]
"""By a tool's name."""


def blocks(text: str, headings: Patterns, goes_on: Patterns) -> dict[str, list[Pasted]]:
    """The blocks of each tool, by its name. `goes_on`: lines that are no heading where that tool's block is open."""
    by_tool: dict[str, list[Pasted]] = {}
    for name, lines, ends_the_text in _split(text, headings, goes_on):
        while lines and not lines[-1].strip():
            lines.pop()
        if lines:
            by_tool.setdefault(name, []).append(Pasted(tuple(lines), ends_the_text))
    return by_tool


def _split(text: str, headings: Patterns, goes_on: Patterns) -> Iterator[tuple[str, list[str], bool]]:
    name, lines = "", list[str]()
    for raw in text.split("\n"):
        line = raw[:LONGEST_LINE].strip().lstrip(MARGIN)
        further = goes_on.get(name)
        opened = name if further and further.match(line) else _opened(line, headings, name)
        if opened == name or not line:
            lines.append(line)
            continue
        if opened or _closes(line):
            if name:
                yield name, lines, False
            name, lines = opened, [line]
        elif name:
            lines.append(line)
    if name:
        yield name, lines, True


def _opened(line: str, headings: Patterns, current: str) -> str:
    """The tool of which the line is a heading, first of all the one whose lines these are; else nothing."""
    if current and headings[current].match(line):
        return current
    return next((name for name, heading in headings.items() if heading.match(line)), "")


def _closes(line: str) -> bool:
    return _is_prompt(line) or FENCE.fullmatch(line) is not None or OTHERS.match(line) is not None


def _is_prompt(line: str) -> bool:
    sign = re.search(r"[$#%>]", line[:LONGEST_PROMPT])
    if sign is None or line[sign.end() : sign.end() + 1] not in ("", " "):
        return False
    return PROMPT.fullmatch(line[: sign.start()]) is not None


def joined(parts: Sequence[Pasted]) -> Pasted:
    """The blocks of one tool as one."""
    return Pasted(tuple(line for block in parts for line in block.lines), bool(parts) and parts[-1].ends_the_text)
