"""A text in which something stands before every line (a collector's time or pod, a line's number, the node's name) ->
the lines as the tool wrote them."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re

FORMS = (
    lazy_re(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?: |$)", re.ASCII),
    lazy_re(r" {0,6}\d{1,6}(?:\t|: ?|$)", re.ASCII),
    lazy_re(
        r"(?P<who>\[[\w./: -]{1,200}\]|[A-Za-z][\w.-]{0,62}(?: out| err)?:|[A-Za-z][\w.-]{0,62} {0,40}\|)(?: |$)",
        re.ASCII,
    ),
)
"""docker's and kubectl's --timestamps; cat -n, an editor, srun -l; kubectl's --prefix, pdsh, docker compose."""
LAYERS = 3
FEW = 2
"""Fewer lines show no rule."""


def layers(text: str) -> Iterator[str]:
    """The text without the first such prefix, without the next, and so on; nothing where there is none."""
    for _ in range(LAYERS):
        bare_text = next((bare for form in FORMS if (bare := _without(form, text)) is not None), None)
        if bare_text is None:
            return
        text = bare_text
        yield text


def _without(form: re.Pattern[str], text: str) -> str | None:
    """None where a line lacks it, or two lines name two machines."""
    lines, names = list[str](), set[str]()
    for line in text.split("\n"):
        if not line.strip():
            lines.append("")
            continue
        prefix = form.match(line)
        if prefix is None:
            return None
        names.add(prefix.groupdict().get("who", ""))
        lines.append(line[prefix.end() :])
        if len(names) > 1:
            return None
    return "\n".join(lines) if len(lines) - lines.count("") >= FEW else None
