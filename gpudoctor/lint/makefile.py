"""A Makefile -> the shell text of its recipes, of the same length, so that places stay.

`$(NAME)` is make's variable, and becomes the shell's; lines that are no recipe and no plain assignment become blank.
Recipes of several targets stand one behind the other: each of them may be what somebody calls.
"""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, TextSection

RULE = lazy_re(r"^[\w.%/ $(){}-]+:(?!=)[^\n]*\n(?:\t[^\n]*\n)*\t\S", re.MULTILINE)
OF_MAKE = lazy_re(r"^(?:ifn?eq[ \t]*\(|ifn?def[ \t]+\w+[ \t]*$|[A-Za-z_]\w*[ \t]*[:?]=[ \t])", re.MULTILINE)
"""What no shell has: a file of settings that a Makefile includes has no rule."""
ASSIGNED = lazy_re(r"(?:export )?([A-Za-z_]\w*)[ ]*(?:\?|:{1,3})?=[ ]*(.*?)[ ]*$", re.ASCII)
TARGET = lazy_re(r"[^#=\n]+?::?(?!=)")
CONDITION = lazy_re(r"(?:ifn?eq|ifn?def|else|endif)\b")
VARIABLE = lazy_re(r"\$\(([A-Za-z_]\w*)\)", re.ASCII)

PLAIN = lazy_re(r"[\w.,:/@%+-]+", re.ASCII)
"""A value that is its own text."""


def looks_like_makefile(text: str) -> bool:
    return not text.startswith("#!") and (RULE.search(text) or OF_MAKE.search(text)) is not None


def makefiles(job: LintJob) -> Iterator[tuple[TextSection, str]]:
    """Each with its text as it was given: what `sections` hold is a shell's."""
    for section in job.sections:
        text = job.text[section.start : section.start + len(section.text)]
        if looks_like_makefile(text):
            yield section, text


def variables(text: str) -> dict[str, str]:
    """What make itself puts in before a shell sees it, quotes or not: of plain assignments that stand once."""
    told: dict[str, list[str]] = {}
    for line in text.split("\n"):
        match = ASSIGNED.fullmatch(line) if not line.startswith("\t") else None
        if match is not None:
            told.setdefault(match[1], []).append(match[2])
    return {name: values[0] for name, values in told.items() if len(values) == 1 and PLAIN.fullmatch(values[0])}


def as_shell(text: str) -> str:
    lines = []
    goes_on = recipe = in_rule = False
    for line in text.split("\n"):
        if not goes_on and line[:1] not in ("\t", "#", " ", ""):
            # a tab begins a recipe from a rule on, and nothing special before it or behind an assignment
            in_rule = in_rule if CONDITION.match(line) else TARGET.match(line) is not None
        recipe = (goes_on and recipe) or (in_rule and line.startswith("\t"))
        line = line if recipe or goes_on or not line.startswith("\t") else f" {line[1:]}"
        lines.append(
            _recipe(line, begins=not goes_on) if recipe else _assignment(line) if not goes_on else " " * len(line)
        )
        goes_on = line.endswith("\\")
    return "\n".join(lines)


def _recipe(line: str, *, begins: bool) -> str:
    """`@`, `-` and `+` are make's where a command begins; behind a backslash they are the command's own."""
    line = VARIABLE.sub(r"${\1}", line)
    mark = re.match(r"\t[ \t]*([@+-]+)", line) if begins else None
    return line[: mark.start(1)] + " " * len(mark[1]) + line[mark.end() :] if mark is not None else line


def _assignment(line: str) -> str:
    match = ASSIGNED.fullmatch(line)
    if match is None:
        return " " * len(line)
    value = VARIABLE.sub(r"${\1}", match[2])
    written = f"{match[1]}={value}" if re.fullmatch(r"[\w.,:/${}-]*", value) else f'{match[1]}="{value}"'
    return written.ljust(len(line)) if len(written) <= len(line) else " " * len(line)
