"""What `lint` answers to a start, and what is wrong with it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpudoctor.lint import asked
from gpudoctor.lint.facts import FactsProblem, parse_facts
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.report import LintProblem, LintReport
from tests.corpus.starts import Start, Text
from tests.corpus.starts.troubles import TROUBLES, rules_of

NEAR = 3
"""Lines around the labelled one: a command over several lines, a header and what it is about."""
NAMES = {"nodes": "nodes", "gpus": "gpus_per_node"}
COMMANDS = re.compile(r"(?:\.(?:sh|bash|txt|sbatch|slurm|pbs|lsf|job|sub|pjm|qsub|flux|md|env)|^[\w-]+)$")


class Given(NamedTuple):
    """A start as it is given to lint: one text, the files beside it behind `#@ file`."""

    name: str
    """Of the text that is linted; empty where it has none."""
    text: str
    lines: dict[str, int]
    """Where each file or node begins: the line before its first."""


class ScoredStart(NamedTuple):
    start: Start
    report: LintReport
    found: bool
    """An error or warning stands at the labelled place, or is of a right rule."""
    right: bool
    """A right rule fired, or one at the labelled place says what must be told."""
    false_errors: tuple[str, ...]
    false_warnings: tuple[str, ...]
    """Codes, of a good one."""

    @property
    def understood(self) -> bool:
        return self.report.exit_status != 3

    @property
    def wrong(self) -> str:
        if self.start.verdict == "not-understood":
            return "understood" if self.understood else ""
        if self.start.verdict == "good":
            told = [*self.false_errors, *self.false_warnings]
            return "accused: " + " ".join(told) if told else "" if self.understood else "not understood"
        if self.start.decidable == "no" or self.right:
            return ""
        return "found by another rule" if self.found else "not found" if self.understood else "not understood"


def given(start: Start) -> Given:
    main, *others = _in_order(start.texts)
    marked = any(each.node for each in start.texts)
    text, lines = "", {}
    for each in (main, *others):
        if each.node or (each is not main and each.file):
            text += f"#@ node {each.node}\n" if each.node else f"#@ file {each.file}\n"
        elif marked:
            text += "#@ every node\n"
        lines[each.node or each.file] = text.count("\n")
        text += each.text if each.text.endswith("\n") else each.text + "\n"
    return Given(main.file, text, lines)


def _in_order(texts: Sequence[Text]) -> list[Text]:
    """What a user would lint first: the file that no other one names, a script before a manifest before a program."""

    def rank(text: Text) -> tuple[int, int]:
        name = text.file.rpartition("/")[2]
        called = any(name in other.text for other in texts if other is not text) if name else False
        kind = 0 if not name or COMMANDS.search(name) else 1 if name.endswith((".yaml", ".yml")) else 2
        return int(called), kind if name != "Dockerfile" else 2

    return sorted(texts, key=rank)


def facts(start: Start) -> LintFacts:
    """What a user can say by --facts; the installed packages of this machine are no part of it."""
    told = []
    for name, value in start.facts.items():
        fact = f"{NAMES.get(name, name)}={value}"
        try:
            parse_facts(fact)
        except FactsProblem:
            continue
        told.append(fact)
    return parse_facts(",".join(told))


def score(start: Start) -> ScoredStart:
    whole = given(start)
    report = asked.lint(whole.text, facts(start), name=whole.name or "the text").report
    told = [each for each in report.problems if each.severity != "info"]
    codes = rules_of(start.cause)
    near = [each for each in told if _near(each, start, whole)]
    right = any(each.code in codes for each in told) or any(_says(each, start.must) for each in near)
    good = start.verdict == "good"
    return ScoredStart(
        start,
        report,
        found=right or bool(near),
        right=right,
        false_errors=tuple(each.code for each in told if good and each.severity == "error"),
        false_warnings=tuple(each.code for each in told if good and each.severity == "warning"),
    )


def _near(problem: LintProblem, start: Start, whole: Given) -> bool:
    first = next(iter(whole.lines.values()))
    return any(abs(problem.line - whole.lines.get(name, first) - line) <= NEAR for name, line in start.lines)


def _says(problem: LintProblem, must: tuple[str, ...]) -> bool:
    told = " ".join(f"{problem.summary} {problem.happens} {problem.fix.text}".split())
    return bool(must) and all(re.search(each, told, re.IGNORECASE) for each in must)


def _told_elsewhere(scored: ScoredStart) -> bool:
    """What must be told is told, at another line or in another file than the label names: not counted as found."""
    told = (each for each in scored.report.problems if each.severity != "info")
    return not scored.found and any(_says(each, scored.start.must) for each in told)


def table(scored: Sequence[ScoredStart]) -> list[str]:
    """The score of a half, a line each."""
    bad = [each for each in scored if each.start.verdict == "bad" and each.start.decidable != "no"]
    good = [each for each in scored if each.start.verdict == "good"]
    nothing = [each for each in scored if each.start.verdict == "not-understood"]
    ranks = [each for each in scored if each.start.ranks is not None]
    worlds = [(each.start.ranks, each.report.understood.world_size) for each in ranks]
    rows = (
        ("bad and decidable: found", sum(each.found for each in bad), len(bad)),
        ("bad and decidable: right rule", sum(each.right for each in bad), len(bad)),
        ("bad and decidable: told elsewhere", sum(_told_elsewhere(each) for each in bad), len(bad)),
        ("bad and decidable: verdict ok", sum(each.report.exit_status == 0 for each in bad), len(bad)),
        ("bad and decidable: not understood", sum(not each.understood for each in bad), len(bad)),
        ("good: false errors", sum(bool(each.false_errors) for each in good), len(good)),
        ("good: false warnings", sum(bool(each.false_warnings) for each in good), len(good)),
        ("good: not understood", sum(not each.understood for each in good), len(good)),
        ("good: no launcher understood", sum(each.report.understood.launcher is None for each in good), len(good)),
        ("bad: no launcher understood", sum(each.report.understood.launcher is None for each in bad), len(bad)),
        ("starts nothing: not understood", sum(not each.understood for each in nothing), len(nothing)),
        ("ranks: told rightly", sum(told == wanted for wanted, told in worlds), len(worlds)),
        ("ranks: told wrongly", sum(told not in (None, wanted) for wanted, told in worlds), len(worlds)),
    )
    return [f"  {what:36} {count:3} of {of:3} ({count / max(of, 1):.0%})" for what, count, of in rows]


def by(scored: Sequence[ScoredStart]) -> list[str]:
    """Where the bad ones are found and where not, in sums alone, so that keep stays unseen."""
    bad = [each for each in scored if each.start.verdict == "bad" and each.start.decidable != "no"]
    rows = []
    for what, of in SORTS.items():
        sums: dict[str, list[ScoredStart]] = {}
        for each in bad:
            for key in of(each):
                sums.setdefault(key, []).append(each)
        rows += [f"  by {what}:"] + [
            f"    {key:24} {sum(each.found for each in these):3} of {len(these):3}"
            for key, these in sorted(sums.items())
        ]
    return rows + accused(scored)


def _language(scored: ScoredStart) -> list[str]:
    names = [text.file.rpartition("/")[2] for text in scored.start.texts]
    kinds = {("." + name.rpartition(".")[2]) if "." in name else name for name in names}
    first = scored.start.texts[0].text
    bare = "#SBATCH" if "#SBATCH" in first else "yaml" if re.search(r"^\w+:", first, re.M) else "command"
    python = re.search(r"^(?:import|from|def) ", first, re.M) is not None
    return sorted(kinds - {""}) or ["python" if python else bare]


SORTS: dict[str, Callable[[ScoredStart], Iterable[str]]] = {
    "group": lambda each: [each.start.group],
    "end": lambda each: [each.start.kind],
    "decided by": lambda each: [each.start.decidable],
    "language": _language,
    "launcher": lambda each: [each.report.understood.launcher or "none"],
    "trouble": lambda each: (
        [key[:24] for key in TROUBLES if re.search(key, each.start.cause, re.IGNORECASE if key.islower() else 0)]
        or ["another"]
    ),
}
"""What starts are counted by: the words of their labels, and the table of troubles."""


def accused(scored: Sequence[ScoredStart]) -> list[str]:
    """Which rules accuse good ones, in sums."""
    codes = Counter(code for each in scored for code in (*each.false_errors, *each.false_warnings))
    return [f"  good ones accused by {code:8} {count:3}" for code, count in sorted(codes.items())]
