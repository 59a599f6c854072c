"""A job x rules -> what is wrong with it. Never raises: a rule that crashes is among what is unknown."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from msgspec import Struct, structs

from gpudoctor.lint.alternatives import ways
from gpudoctor.lint.assumed_start import as_started
from gpudoctor.lint.fix import Judged, corrected
from gpudoctor.lint.ignores import Ignores
from gpudoctor.lint.model import MODULES_START, LintJob, Span
from gpudoctor.lint.places import Piece, Places
from gpudoctor.lint.reached import is_reached
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.report import ImportPlace, LintFix, LintProblem, LintReport
from gpudoctor.lint.rule import LintFinding, LintRule, Severity
from gpudoctor.lint.understood import open_questions, understood
from gpudoctor.severity import WORST_FIRST

MOST_FINDINGS = 50
"""Of one rule: a text of a thousand equal lines is told of the first ones."""


class FiredRule(Struct, frozen=True):
    """A rule that fired."""

    rule: LintRule
    finding: LintFinding

    @property
    def severity(self) -> Severity:
        return self.finding.severity or self.rule.severity

    @property
    def is_in_module(self) -> bool:
        """Whether it stands in a file that a program of the job imports, and none of the job's own."""
        return self.finding.span.start >= MODULES_START


class Linted(Struct, frozen=True, kw_only=True):
    """Everything that was found, with the rules, before it becomes the answer."""

    job: LintJob
    found: tuple[FiredRule, ...]
    """The worst first, then in the order of the text."""
    corrected: str
    """The text with every correction made; the text itself when there is none."""
    unknown: tuple[str, ...]
    pieces: tuple[Piece, ...] = ()
    """The files in the text, where it came from files."""
    off: tuple[str, ...] = ()
    """Codes and ids of rules that might not judge."""

    @property
    def places(self) -> Places:
        return Places(self.job.text, self.pieces, self.job.modules)

    @property
    def report(self) -> LintReport:
        places = self.places
        return LintReport(
            problems=tuple(self._problem(rule, places) for rule in self.found),
            understood=understood(self.job),
            unknown=tuple(places.told(line) for line in self.unknown),
        )

    def _problem(self, rule: FiredRule, places: Places) -> LintProblem:
        finding = rule.finding
        changed = bool(finding.edits) and self.corrected != self.job.text
        place = places.of(finding.span)
        through = self._through(finding.span, places)
        return LintProblem(
            rule=rule.rule.id,
            code=rule.rule.code,
            severity=rule.severity,
            file=place.file,
            line=place.line,
            column=place.column,
            end_line=place.end_line,
            end_column=place.end_column,
            summary=places.told(finding.summary, place.file),
            happens=places.told(finding.happens, place.file),
            fix=LintFix(places.told(finding.fix, place.file), self.corrected if changed else ""),
            source=rule.rule.source,
            leads_to=rule.rule.leads_to,
            imported=through,
        )

    def import_of(self, span: Span) -> Span | None:
        """Of a place in a module: the import in a program of the job that leads there."""
        if span.start < MODULES_START:
            return None
        for program in self.job.linked:
            places = ((each.start, each.line) for each in self.job.sections if each.text == program.text)
            begin, line = next(places, (0, 1))
            for module in program.modules:
                if module.start <= span.start <= module.start + len(module.text):
                    through = module.through
                    return Span(begin + through.start, begin + through.end, line + through.line - 1)
        return None

    def _through(self, span: Span, places: Places) -> ImportPlace | None:
        told = self.import_of(span)
        if told is None:
            return None
        place = places.of(told)
        return ImportPlace(file=place.file, line=place.line)


def judge(
    job: LintJob, rules: Iterable[LintRule], off: Collection[str] = ()
) -> tuple[tuple[FiredRule, ...], tuple[str, ...]]:
    """What fires and no comment silences, the worst first; and which rules crashed. `off`: codes and ids of rules that
    may not judge."""
    judging = [rule for rule in rules if rule.code not in off and rule.id not in off]
    ignores = Ignores(job.text, job.modules)
    fired_rules, crashed = _judge(job, judging, ignores)
    if started := as_started(job):
        known = {(fired.rule.code, fired.finding.span.line) for fired in fired_rules}
        more, _ = _judge(started, judging, ignores)
        fired_rules += [
            fired
            for fired in more
            if (fired.finding.span.end <= len(job.text) or fired.is_in_module)
            and (fired.rule.code, fired.finding.span.line) not in known
            and all(edit.span.end <= len(job.text) for edit in fired.finding.edits)
        ]
    for taken, read in ways(job):
        read = structs.replace(read, linked=job.linked) if job.modules else read
        fired_rules += _along(taken, _judge(read, judging, ignores)[0], fired_rules)
    names = {name for rule in judging for name in (rule.code, rule.id)}
    fired_rules += [FiredRule(*complaint) for complaint in ignores.complaints(names, off)]
    fired_rules.sort(
        key=lambda rule: (WORST_FIRST[rule.severity], rule.finding.span.line, rule.finding.span.start, rule.rule.code)
    )
    return tuple(fired_rules), tuple(crashed)


def _along(taken: str, more: Sequence[FiredRule], known: Sequence[FiredRule]) -> list[FiredRule]:
    """What is wrong along one way of the text alone."""
    before = {(fired.rule.code, fired.finding.span.line) for fired in known}
    return [
        FiredRule(fired.rule, structs.replace(fired.finding, edits=(), summary=f"{fired.finding.summary} ({taken})"))
        for fired in more
        if fired.severity != "info" and (fired.rule.code, fired.finding.span.line) not in before
    ]


def _judge(job: LintJob, rules: Sequence[LintRule], ignores: Ignores) -> tuple[list[FiredRule], list[str]]:
    fired_rules: list[FiredRule] = []
    crashed: list[str] = []
    for rule in rules:
        try:
            said: set[tuple[int, str]] = set()
            for finding in islice(rule.judge(job), MOST_FINDINGS):
                key = finding.span.start, finding.summary
                if key not in said:
                    said.add(key)
                    if any(edit.span.start >= MODULES_START for edit in finding.edits):  # a file that nobody named
                        finding = structs.replace(finding, edits=())
                    if finding.span.start >= MODULES_START and not is_reached(job, finding.span):
                        continue
                    if not ignores.silences(rule, finding.span.line):
                        fired_rules.append(FiredRule(rule, finding))
        except Exception as error:  # a rule's bug must not keep the others from being heard
            crashed.append(
                f"rule {rule.code} {rule.id} could not judge this text: {type(error).__name__}; a bug in gpudoctor"
            )
    return fired_rules, crashed


def linted(
    job: LintJob,
    rules: Sequence[LintRule],
    seen: Sequence[FiredRule] = (),
    *,
    off: Collection[str] = (),
    pieces: tuple[Piece, ...] = (),
    corrections: bool = True,
) -> Linted:
    """Judge a job, and correct its text: `corrections`, which judges it again for every round of them, and without
    which the text stays as it is. `seen`: what a look at this machine showed besides, which stands first."""
    fired_rules, crashed = judge(job, rules, off)
    fired_rules = (*seen, *fired_rules)

    def again(text: str) -> tuple[LintJob, Sequence[Judged]]:
        try:
            following = read_job(text, job.facts, job.kind)
            following = structs.replace(following, linked=job.linked) if job.modules else following
        except UnreadableText:
            return job, judged
        return following, _judged(judge(following, rules, off)[0])

    judged = _judged(fired_rules)
    text = job.text
    if corrections and any(fired_rule.finding.edits for fired_rule in fired_rules):
        text = corrected(job, judged, again)
    unknown = (*dict.fromkeys(open_questions(job)), *crashed)
    return Linted(job=job, found=fired_rules, corrected=text, unknown=unknown, pieces=pieces, off=tuple(off))


def _judged(rules: Sequence[FiredRule]) -> list[Judged]:
    return [(rule.severity, rule.finding) for rule in rules]


def lint(job: LintJob, rules: Sequence[LintRule]) -> LintReport:
    """The answer for a job."""
    return linted(job, rules).report
