"""Where a quote is opened and never closed in a shell text."""

import re
from bisect import bisect_left

from gpudoctor.lazy import lazy_re

_HEREDOC = lazy_re(r"<<-?\s*([\"']?)(\w+)\1")
_ALONE = lazy_re(r"^\t*(\w+)$", re.MULTILINE)
"""What may end a here-document."""


def without_documents(text: str) -> str:
    """The text with blanks for what stands in here-documents, of the same length."""
    if "<<" not in text:
        return text
    alone: dict[str, list[int]] = {}
    for line in _ALONE.finditer(text):
        alone.setdefault(line[1], []).append(line.start())
    kept, at = [], 0
    for begins in _HEREDOC.finditer(text):
        if begins.start() < at or text[begins.start() - 1 : begins.start()] == "<":
            continue
        first = text.find("\n", begins.end())
        ends = alone.get(begins[2], [])
        end = bisect_left(ends, first) if first >= 0 else len(ends)
        if end < len(ends):
            kept += [text[at:first], re.sub(r"[^\n]", " ", text[first : ends[end]])]
            at = ends[end]
    return "".join((*kept, text[at:]))


_SPECIAL = lazy_re(r"[\\\"'$()#<\n]")
"""Everything that the scanner acts on; what stands between is passed over at once."""


def unclosed(text: str) -> int | None:
    """The offset of the quote that is still open at the end; None when all are closed.

    A scanner of quotes only: escapes, comments, here-documents, `$'...'` and command substitutions in double quotes.
    """
    inside: list[tuple[str, int]] = []
    waiting: list[str] = []
    index, size = 0, len(text)
    while index < size:
        mode = inside[-1][0] if inside else ""
        special = _SPECIAL.search(text, index)
        if special is None:
            if mode == "'":
                return inside[-1][1]
            break
        index = special.start()
        letter = text[index]
        if mode == "'":
            end = text.find("'", index)
            if end < 0:
                return inside[-1][1]
            inside.pop()
            index = end + 1
        elif letter == "\\":
            index += 2
        elif mode == "$'" and letter == "'":
            inside.pop()
            index += 1
        elif mode == "$'":
            index += 1
        elif letter == '"':
            if mode == '"':
                inside.pop()
            else:
                inside.append(('"', index))
            index += 1
        elif text.startswith("$(", index):
            inside.append(("(", index))
            index += 2
        elif mode == '"':
            index += 1
        elif letter in "()":
            if letter == "(" and mode == "(":
                inside.append(("(", index))
            elif letter == ")" and mode == "(":
                inside.pop()
            index += 1
        elif text.startswith("$'", index):
            inside.append(("$'", index))
            index += 2
        elif letter == "'":
            inside.append(("'", index))
            index += 1
        elif letter == "#" and (index == 0 or text[index - 1] in " \t\n;&|("):
            end = text.find("\n", index)
            index = size if end < 0 else end
        elif letter == "<" and (match := _HEREDOC.match(text, index)) and not text.startswith("<<<", index):
            waiting.append(match[2])
            index = match.end()
        elif letter == "\n" and waiting:
            index = _behind(text, index + 1, waiting)
            waiting = []
        else:
            index += 1
    quotes = [at for kind, at in inside if kind != "("]
    return quotes[0] if quotes else None


def _behind(text: str, index: int, ends: list[str]) -> int:
    """Behind the bodies of here-documents that begin at `index`."""
    for end in ends:
        match = re.compile(rf"^\t*{re.escape(end)}[ \t\r]*$", re.MULTILINE).search(text, index)
        if match is None:
            return len(text)
        index = match.end()
    return index
