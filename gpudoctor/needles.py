"""Of a regular expression: literal texts of which every match holds one. A search for them rules most lines out."""

import re

from gpudoctor.lazy import lazy_re

TOKEN = lazy_re(
    r"(?P<open>\((?P<look>\?<?[=!]|\?[a-z]+:)?(?:\?:|\?P<\w+>)?)|(?P<close>\))|(?P<next>\|)"
    r"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\]|\\[a-zA-Z]|[.^$])"
    r"|\\?(?P<literal>[\w \-:/,=#'\"]+(?![?*+{])|.)",
    re.DOTALL,
)
"""look: what looks around or ignores case, so that its text need not stand there as it is."""
QUANTIFIER = lazy_re(r"(?:(?P<optional>[?*]|\{0?,\d*\})|\+|\{\d+(?:,\d*)?\})?[?+]?")
"""With what makes it lazy or, since Python 3.11, possessive."""


def worth(texts: tuple[str, ...]) -> int:
    """Of a choice of texts: the length of the shortest."""
    return min(map(len, texts), default=0)


class _Group:
    """What is known of a group, or of the whole, up to here."""

    def __init__(self, certain: bool = True) -> None:
        self.certain = certain
        self._branches: list[tuple[str, ...]] = []
        self._best: tuple[str, ...] = ()
        self.run = ""

    def take(self, texts: tuple[str, ...]) -> None:
        if texts and worth(texts) > worth(self._best):
            self._best = texts

    def cut(self) -> None:
        """The run of literals ends here."""
        if self.run:
            self.take((self.run,))
            self.run = ""

    def branch(self) -> None:
        self.cut()
        self._branches.append(self._best)
        self._best = ()

    def texts(self) -> tuple[str, ...]:
        self.branch()
        known = self.certain and all(map(worth, self._branches))
        return tuple(dict.fromkeys(text for texts in self._branches for text in texts)) if known else ()


def needles(pattern: str) -> tuple[str, ...]:
    """The best choice of such texts; () where there is none."""
    groups, at = [_Group()], 0
    while token := TOKEN.match(pattern, at):
        at, kind = token.end(), token.lastgroup
        if kind == "open":
            groups[-1].cut()
            groups.append(_Group(certain=not token["look"]))
        elif kind == "next":
            groups[-1].branch()
        else:
            texts = groups.pop().texts() if kind == "close" else ()
            times = QUANTIFIER.match(pattern, at)
            assert times is not None  # it may be empty
            at = times.end()
            if not times["optional"]:
                groups[-1].take(texts)
                groups[-1].run += token["literal"] or ""
            if times[0] or kind != "literal":
                groups[-1].cut()
    return groups[0].texts()
