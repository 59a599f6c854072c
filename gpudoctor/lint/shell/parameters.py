"""The inside of `${...}`."""

import re
from fnmatch import fnmatchcase

from gpudoctor.lazy import lazy_re

PARAMETER = lazy_re(
    r"(?P<before>[#!]?)(?P<name>[A-Za-z_]\w*|\d+|[@*?$!#_-])(?:\[(?P<index>[^][]{1,80})\])?(?P<operator>:?[-+=?]|%%?|##?|//?|\^\^?|,,?|:|@)?",
    re.ASCII,
)


def split_parameter(inside: str) -> tuple[str, str, str, int] | None:
    """(name, index of an array or "", operator or "", where its operand begins); None for what is none."""
    match = PARAMETER.match(inside)
    if match is None:
        return None
    before, operator = match["before"], match["operator"] or ""
    if not operator and match.end() != len(inside):
        return None
    return match["name"], match["index"] or "", before or operator, match.end()


def operated(operator: str, text: str | None, operand: str | None) -> str | None:
    """What an operator makes of a known value; None when it cannot be told."""
    if text is None or operand is None or len(text) > 4096:
        return None
    if operator == "#" and not operand:
        return str(len(text))
    if operator in (":+", "+"):
        return operand if text else ""
    if operator in ("%", "%%", "#", "##"):
        return _without(text, operand, operator)
    if operator in ("/", "//"):
        pattern, _slash, new = operand.partition("/")
        if not pattern or re.search(r"[#%\\]", pattern) or len(text) > 512:
            return None
        if re.search(r"[*?\[]", pattern):
            return _replaced(text, pattern, new, 1 if operator == "/" else 0)
        return text.replace(pattern, new, 1 if operator == "/" else -1)
    if operator in ("^^", ",,"):
        return text.upper() if operator == "^^" else text.lower()
    if operator == ":":
        match = re.fullmatch(r"\s*\(?(-?\d{1,6})\)?\s*(?::\s*(\d{1,6})\s*)?", operand, re.ASCII)
        if match is None or operand.startswith("-"):
            return None
        start = int(match[1]) if match[1][0] != "-" else len(text) + int(match[1])
        if start < 0:
            return ""
        return text[start : start + int(match[2])] if match[2] else text[start:]
    return None


def _without(text: str, pattern: str, operator: str) -> str | None:
    """The shortest (`%`, `#`) or longest (`%%`, `##`) part that fits the pattern removed from the end or the front."""
    if len(text) > 256 or len(pattern) > 64 or pattern.count("*") > 3:
        return None
    cuts = range(len(text) + 1)
    if operator in ("%", "##"):
        cuts = range(len(text), -1, -1)
    for cut in cuts:
        part = text[cut:] if operator[0] == "%" else text[:cut]
        if fnmatchcase(part, pattern):
            return text[:cut] if operator[0] == "%" else text[cut:]
    return text


def _replaced(text: str, pattern: str, new: str, count: int) -> str | None:
    """`${X//[^,]/}`: bash's pattern as an expression; one `*` at most, so that it takes no time."""
    if pattern.count("*") > 1 or len(pattern) > 64:
        return None
    parts = re.findall(r"\[[!^]?\]?[^]]*\]|\*|\?|.", pattern, re.DOTALL)
    made = ""
    for part in parts:
        if part[0] == "[" and len(part) > 2:
            inner = part[1:-1]
            if "[:" in part or "[" in inner:
                return None
            made += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
        else:
            made += {"*": ".*", "?": "."}.get(part, re.escape(part))
    try:
        return re.sub(made, lambda _: new, text, count=count, flags=re.DOTALL)
    except re.error:
        return None
