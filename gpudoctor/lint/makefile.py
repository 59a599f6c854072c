"""A Makefile -> the shell text of its recipes, of the same length, so that places stay.

`$(NAME)` is make's variable, and becomes the shell's; lines that are no recipe and no plain assignment become blank.
Recipes of several targets stand one behind the other: each of them may be what somebody calls.
"""

import re

RULE = re.compile(r"^[\w.%/ $(){}-]+:(?!=)[^\n]*\n(?:\t[^\n]*\n)*\t\S", re.MULTILINE)
ASSIGNED = re.compile(r"(?:export )?([A-Za-z_]\w*)[ ]*(?:\?|:{1,3})?=[ ]*(.*?)[ ]*$", re.ASCII)
VARIABLE = re.compile(r"\$\(([A-Za-z_]\w*)\)", re.ASCII)


def looks_like_makefile(text: str) -> bool:
    return RULE.search(text) is not None and not text.startswith("#!")


def as_shell(text: str) -> str:
    lines = []
    goes_on = recipe = False
    for line in text.split("\n"):
        recipe = (goes_on and recipe) or line.startswith("\t")
        lines.append(_recipe(line) if recipe else _assignment(line) if not goes_on else " " * len(line))
        goes_on = line.endswith("\\")
    return "\n".join(lines)


def _recipe(line: str) -> str:
    line = VARIABLE.sub(r"${\1}", line)
    return re.sub(r"^(\t[ \t]*)[@+-]+", lambda match: match[1] + " " * (match.end() - match.end(1)), line)


def _assignment(line: str) -> str:
    match = ASSIGNED.fullmatch(line)
    if match is None:
        return " " * len(line)
    value = VARIABLE.sub(r"${\1}", match[2])
    written = f"{match[1]}={value}" if re.fullmatch(r"[\w.,:/${}-]*", value) else f'{match[1]}="{value}"'
    return written.ljust(len(line)) if len(written) <= len(line) else " " * len(line)
