"""`# gpudoctor: ignore[S04] reason`: a comment that silences rules on its line or on the line below it.

A command that goes on over lines by backslashes is one line here, for no comment can stand inside it. What names no
rule or silences nothing is told: a comment that outlives its problem would silence the next one.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LinkedModule, Span
from gpudoctor.lint.rule import LintFinding, LintRule

COMMENT = lazy_re(r"#[ \t]*gpudoctor:[ \t]*ignore\b(?:[ \t]*\[([^\]\r\n]*)\])?")
LINE = lazy_re(r"[^\n]*(?:\n|$)")
GOES_ON = lazy_re(r"\\\r?\n?$")
MOST_COMMENTS = 1000
LONGEST_COMMAND = 1000
"""Lines."""


class Ignore(Struct):
    """One such comment."""

    codes: tuple[str, ...]
    span: Span
    first: int
    """The lines that it speaks of."""
    last: int
    used: set[str]


def _pseudo_rule(code: str, id: str, title: str) -> LintRule:
    """What these comments are told of by: it judges no start, and so stands in no list of rules."""
    return LintRule(
        id=id, code=code, title=title, severity="info", needs="text", source="docs/lint.md", bad=(), good=(),
        judge=lambda job: iter(()),
    )  # fmt: skip


UNKNOWN = _pseudo_rule("I01", "ignore-names-no-rule", "Every ignored rule is a rule")
UNUSED = _pseudo_rule("I02", "ignore-without-effect", "Every ignore comment silences something")


class Ignores:
    """The comments of one text, and of the modules that its programs import: of these nothing is complained, for they
    are other starts' too."""

    def __init__(self, text: str, modules: Sequence[LinkedModule] = ()) -> None:
        self.every = list(_comments(text)) if "gpudoctor:" in text else []
        self._of_modules = [
            Ignore(each.codes, each.span, each.first + module.line - 1, each.last + module.line - 1, each.used)
            for module in modules
            if "gpudoctor:" in module.text
            for each in _comments(module.text)
        ]

    def silences(self, rule: LintRule, line: int) -> bool:
        silenced = False
        for ignore in (*self.every, *self._of_modules):
            if ignore.first <= line <= ignore.last:
                named = {rule.code, rule.id} & {*ignore.codes}
                ignore.used |= named
                silenced = silenced or bool(named)
        return silenced

    def complaints(self, rules: Collection[str], off: Collection[str]) -> Iterator[tuple[LintRule, LintFinding]]:
        """After all was judged. `rules`: codes and ids of those that judged; `off`: of those that may not."""
        for ignore in self.every:
            if not ignore.codes:
                yield UNKNOWN, _finding(ignore, "the comment names no rule to ignore", "Name it: ignore[S04].")
            for code in ignore.codes:
                if code not in rules and code not in off:
                    text = f"no rule of lint has the code or id {code[:40]}"
                    yield UNKNOWN, _finding(ignore, text, "Write the code that stands in brackets behind the problem.")
                elif code not in ignore.used and code not in off:
                    text = f"{code} is ignored here, and does not fire"
                    yield (
                        UNUSED,
                        _finding(ignore, text, "Take the comment away: it would silence the next such problem."),
                    )


def _finding(ignore: Ignore, summary: str, fix: str) -> LintFinding:
    return LintFinding(span=ignore.span, summary=summary, happens="The comment silences nothing.", fix=fix)


def _comments(text: str) -> Iterator[Ignore]:
    lines = [match for match in LINE.finditer(text) if match[0]]
    starts = [line.start() for line in lines]
    for number, match in enumerate(COMMENT.finditer(text)):
        if number == MOST_COMMENTS:
            return
        at = bisect_right(starts, match.start()) - 1
        first = last = at
        if not text[starts[at] : match.start()].strip():  # alone on its line: it speaks of what follows
            while first < len(lines) and lines[first][0].lstrip().startswith("#") and _is_ignore(lines[first][0]):
                first += 1
            last = first = min(first, len(lines) - 1)
        else:
            while first and at - first < LONGEST_COMMAND and GOES_ON.search(lines[first - 1][0]):
                first -= 1
        while last + 1 < len(lines) and last - at < LONGEST_COMMAND and GOES_ON.search(lines[last][0]):
            last += 1
        codes = tuple(filter(None, (code.strip() for code in (match[1] or "").split(","))))
        yield Ignore(codes, Span(match.start(), match.end(), at + 1), first + 1, last + 1, set())


def _is_ignore(line: str) -> bool:
    return COMMENT.match(line.strip()) is not None
