"""What `gpudoctor lint` answers."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, structs

from gpudoctor.check import Fix
from gpudoctor.envelope import Answer, Stated
from gpudoctor.lint.rule import Severity


class LintFix(Struct, frozen=True):
    """What to write instead."""

    text: str
    """In words."""
    corrected: str
    """The whole text with every correction made; empty where this one needs something that the text does not tell."""


class ImportPlace(Struct, frozen=True):
    """A line of a program that imports a module of its own."""

    file: str | None
    line: int


class LintProblem(Struct, frozen=True, kw_only=True):
    """One rule that fired at one place."""

    rule: str
    code: str
    severity: Severity
    file: str | None = None
    """Where it stands; null where the text came from no file."""
    line: int
    """From 1, in the file, or in the text that was given."""
    column: int = 1
    """From 1, in characters."""
    end_line: int | None = None
    end_column: int | None = None
    """The first place that is no more meant; null in answers of earlier versions."""
    summary: str
    happens: str
    """What will happen at run time."""
    fix: LintFix
    source: str
    leads_to: tuple[str, ...] = ()
    """What `hang` and `explain` will call it when the job runs: ids of causes."""
    imported: ImportPlace | None = None
    """Where it stands in a module that a program of the start imports: that import, or the one that leads to it. Such a
    file is not corrected."""

    @property
    def told_by(self) -> tuple[object, ...]:
        """What two starts tell of one place is one problem; in a module that both import, whatever each says of it."""
        return self.file, self.line, self.column, self.code, self.summary if self.imported is None else ""


class Understood(Struct, frozen=True, kw_only=True):
    """The start as it was read; None for what the text and the facts do not tell."""

    launcher: str | None = None
    nodes: int | None = None
    processes_per_node: int | None = None
    world_size: int | None = None
    master: str | None = None
    """ "10.0.0.1:61234", as far as it is known."""
    framework: str | None = None
    script: str | None = None


LintVerdict = Literal["ok", "bad", "not understood"]
RANK: dict[LintVerdict, int] = {"ok": 0, "not understood": 1, "bad": 2}


class StartReport(Struct, frozen=True, kw_only=True):
    """One start of several files; its problems stand among those of all."""

    file: str
    beside: tuple[str, ...] = ()
    """Other files that belong to it, for it names them."""
    verdict: LintVerdict
    understood: Understood = Understood()
    unknown: tuple[str, ...] = ()


class LintReport(Answer, frozen=True, kw_only=True):
    """The answer."""

    command: ClassVar[str] = "lint"
    signs: ClassVar[tuple[str, ...]] = ("problems", "understood")
    problems: tuple[LintProblem, ...] = ()
    """The worst first, then in the order of the text."""
    understood: Understood = Understood()
    unknown: tuple[str, ...] = ()
    """What could not be decided from the text and the facts, each with what would decide it."""
    starts: tuple[StartReport, ...] = ()
    """Where files were given: each start in them. Of several, `understood` and `unknown` stand here only."""
    passed_over: tuple[str, ...] = ()
    """Files of a folder that start nothing."""

    @property
    def verdict(self) -> LintVerdict:
        """bad: a problem of severity error was found; not understood: no start of a training was, which is not ok. In
        JSON the verdict has the words of all commands."""
        if any(problem.severity == "error" for problem in self.problems):
            return "bad"
        if self.starts or self.passed_over:
            return max((start.verdict for start in self.starts), key=RANK.__getitem__, default="ok")
        return "not understood" if self.understood == Understood() else "ok"

    @property
    def exit_status(self) -> int:
        """1 an error was found; 3 no start of a training was understood."""
        return {"ok": 0, "bad": 1, "not understood": 3}[self.verdict]

    def stated(self) -> Iterator[Stated]:
        for problem in self.problems:
            yield Stated(
                id=problem.rule,
                severity=problem.severity,
                subject=f"{problem.file} line {problem.line}"
                if self.starts and problem.file
                else f"line {problem.line}",
                summary=problem.summary,
                meaning=problem.happens,
                fix=Fix(problem.fix.text),
            )

    def without_lines(self) -> "LintReport":
        fixes = (structs.replace(problem, fix=LintFix(problem.fix.text, "")) for problem in self.problems)
        return structs.replace(self, problems=tuple(fixes))
