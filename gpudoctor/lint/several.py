"""Several files judged: each start in them, with the config that holds for it, and one answer of all."""

from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from gpudoctor import cost
from gpudoctor.errors import BadInput, CannotTell
from gpudoctor.lint import asked
from gpudoctor.lint.asked import AskedFacts
from gpudoctor.lint.config import BadConfig, LintConfig, config_for
from gpudoctor.lint.given import GivenFiles, may_start
from gpudoctor.lint.lint import Linted
from gpudoctor.lint.read import kind_of_name
from gpudoctor.lint.report import LintProblem, LintReport, StartReport
from gpudoctor.lint.shell.sbatch import looks_like_batch
from gpudoctor.lint.starts import SourceFile, StartFiles, starts
from gpudoctor.severity import WORST_FIRST

SHELL = (".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm")


class JudgedStart(Struct, frozen=True):
    """A start, and what is found of it."""

    start: StartFiles
    linted: Linted | None
    reason: str = ""
    """Why nothing could be judged."""

    @property
    def corrected(self) -> dict[str, str]:
        """File -> its corrected text, of those that change."""
        if self.linted is None or self.linted.corrected == self.linted.job.text:
            return {}
        apart = self.start.apart(self.linted.corrected)
        if apart is None:
            return {}
        return {
            file.file: _with_its_line_ends(file.text, new)
            for file, new in zip(self.start.files, apart, strict=True)
            if new != file.text
        }

    @property
    def report(self) -> LintReport:
        """Its own answer, as if it had been the only one; `corrected` is that of the problem's file."""
        if self.linted is None:
            return LintReport(unknown=(self.reason,))
        made, corrected = self.linted.report, self.corrected
        return structs.replace(made, problems=tuple(_of_its_file(problem, corrected) for problem in made.problems))

    @property
    def part(self) -> StartReport:
        report = self.report
        return StartReport(
            file=self.start.main.file,
            beside=tuple(file.file for file in self.start.beside),
            verdict=report.verdict,
            understood=report.understood,
            unknown=report.unknown,
        )


def _with_its_line_ends(before: str, after: str) -> str:
    """A file of Windows' line ends keeps them in the lines that are new."""
    if "\r\n" not in before or "\n" in before.replace("\r\n", ""):
        return after
    return after.replace("\r\n", "\n").replace("\n", "\r\n")


def _of_its_file(problem: LintProblem, corrected: dict[str, str]) -> LintProblem:
    if not problem.fix.corrected:
        return problem
    return structs.replace(problem, fix=structs.replace(problem.fix, corrected=corrected.get(problem.file or "", "")))


def judged(
    start: StartFiles,
    facts: AskedFacts,
    kind: str | None = None,
    name: str = "",
    config: LintConfig | None = None,
    *,
    corrections: bool = True,
) -> JudgedStart:
    """One start, with the config of its folder; `name` is what to call a text that no file holds. `corrections`: with
    the corrected texts too.

    Raises `BadInput` for what cannot be read, `CannotTell` for an empty text, and `BadConfig`.
    """
    file = start.main.file
    if config is None:
        config = config_for(file) if file else LintConfig()
    text, pieces = start.as_one()
    cost.progress()
    known = facts.of(text, config.facts, file)
    placed = pieces if file else ()
    called = name or file
    kind = kind or kind_of_name(called, text)
    answer = asked.lint(
        text, known, kind=kind, name=called, off=config.off, pieces=placed, corrections=corrections,
        linked_programs=start.linked,
    )  # fmt: skip
    return JudgedStart(start, answer)


class JudgedFiles(Struct, frozen=True):
    """All that was found in the files that were given."""

    starts: tuple[JudgedStart, ...]
    passed_over: tuple[str, ...] = ()

    def corrected(self) -> Iterator[tuple[SourceFile, str]]:
        """Each file that changes, with its new text. Of a file that several starts name, the first one's corrections:
        those of the others are met when it is linted again."""
        done: set[str] = set()
        for start in self.starts:
            texts = start.corrected
            for source in start.start.files:
                if source.file in texts and source.file not in done:
                    done.add(source.file)
                    yield source, texts[source.file]

    @property
    def report(self) -> LintReport:
        problems = [problem for start in self.starts for problem in start.report.problems]
        unique: dict[tuple[object, ...], LintProblem] = {}
        for problem in problems:
            unique.setdefault(problem.told_by, problem)
        parts = tuple(start.part for start in self.starts)
        only = parts[0] if len(parts) == 1 else StartReport(file="", verdict="ok")
        return LintReport(
            problems=tuple(sorted(unique.values(), key=lambda problem: WORST_FIRST[problem.severity])),
            understood=only.understood,
            unknown=only.unknown,
            starts=parts,
            passed_over=self.passed_over,
        )


def every_start(
    given: GivenFiles,
    judge: Callable[[StartFiles], JudgedStart],
    *,
    pass_over: bool = False,
) -> JudgedFiles:
    """`pass_over`: what starts nothing is passed over, also where it was named.

    Raises `CannotTell` where nothing starts anything, and `BadInput` where nothing that was named could be read.
    """
    if given.unread and not given.files and not given.folders:
        file, reason = next(iter(given.unread.items()))
        more = f" (and {len(given.unread) - 1} more)" if len(given.unread) > 1 else ""
        raise BadInput(f"{file}: {reason}{more}")
    judged_starts: list[JudgedStart] = [
        JudgedStart(StartFiles(SourceFile(file, "")), None, reason) for file, reason in given.unread.items()
    ]
    passed_over = list(given.passed_over)
    waiting = list(starts(given.files))
    while waiting:
        start = waiting.pop(0)
        done = _answered(start, judge) if may_start(start.main) else None
        if done is None or (_starts_nothing(done) and (pass_over or not start.main.is_named)):
            passed_over.append(start.main.file)
            waiting += [StartFiles(file) for file in start.beside]
            continue
        judged_starts.append(done)
        waiting += [StartFiles(file) for file in start.beside if not _followed(file, done)]
    if not judged_starts and not pass_over:
        where = ", ".join(given.folders)
        raise CannotTell(f"{where}: no file in it starts a training; {len(passed_over)} were looked at")
    return JudgedFiles(tuple(judged_starts), tuple(dict.fromkeys(passed_over)))


def _answered(start: StartFiles, judge: Callable[[StartFiles], JudgedStart]) -> JudgedStart:
    """One file that cannot be judged costs its own answer only."""
    try:
        return judge(start)
    except BadConfig:
        raise
    except (BadInput, CannotTell) as error:
        return JudgedStart(start, None, str(error).removeprefix(f"{start.main.file}: "))


def _starts_nothing(done: JudgedStart) -> bool:
    return done.report.verdict == "not understood"


def _followed(source: SourceFile, done: JudgedStart) -> bool:
    """Whether a script was read as a part of the start that names it. A program or a config is none by itself."""
    if not source.file.endswith(SHELL) and not looks_like_batch(source.text):
        return True
    if done.linted is None:
        return False
    places = done.linted.places
    read = (places.piece(invocation.span.start) for invocation in done.linted.job.invocations)
    return any(piece is not None and piece.file == source.file for piece in read)
