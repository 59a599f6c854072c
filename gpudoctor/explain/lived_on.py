"""Faults that the program lived through, though no step shows it: told once, and its own lines go on behind them.

A process dies of one exception only. What it wrote of another before that one was caught: a package that it does
without, a download that is tried again. A shell that goes on to start Python has not ended of the command before.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gpudoctor.explain.classes import judged_exception
from gpudoctor.explain.course import BAR, TROUBLE, CourseSeen
from gpudoctor.explain.deaths import OF_TORCHRUN, Spoken, spoken
from gpudoctor.explain.order import Facts
from gpudoctor.explain.own_lines import said_by
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Event, Told, ToldTraceback
from gpudoctor.explain.tracebacks import FRAME, HEADER, Traceback
from gpudoctor.explain.writers import unprefixed
from gpudoctor.fault_classes import Class
from gpudoctor.lazy import lazy_re

OF_A_MAIN_PROGRAM = frozenset({"<module>", "_run_module_as_main"})
"""Where the stack of an exception begins that nobody caught; one that is logged begins where it was caught."""
OF_A_PROCESS = OF_A_MAIN_PROGRAM | {"_bootstrap", ""}
"""The same of a child of multiprocessing; empty: the beginning was not pasted."""
WENT_ON = 2
"""Lines between that are no trouble (our rule of thumb: one may belong to the fault)."""
OTHERS = lazy_re(r"\bNCCL (?:INFO|WARN|TRACE)\b|\bNVRM\b|\[c10d\]|\.(?:cpp|cc|cu|hpp):\d+\]")
"""Lines of libraries' own loggers, which tell nothing of the program."""
RECORD = lazy_re(r"\[[DIWEC] (?:[\d-]{6,10} )?\d\d:\d\d:\d\d(?:[.,]\d{1,6})? [\w.:-]{1,80}\] ")
"""Tornado's form of a record (log.LogFormatter), also Jupyter's."""
OF_NO_ERROR = lazy_re(r"(?:^|[\s\[|(-])WARN(?:ING)?(?=[\s\]|:)-])|\bwandb-AsyncioManager-main:\d")
"""A record of a warning, as loggers write it; and wandb's of its own thread, which its service has left."""
HARMLESS = lazy_re(r"(?i)\bsafe(?:ly)?(?: to)? ignore\b|\bcan (?:be )?(?:safely )?(?:be )?ignored?\b")
"""By which a record says itself that the exception below it did no harm (ray.train's autoscaling coordinator)."""
WARNING = lazy_re(r"(?i:warn)|(?:^|[\[:\s])W\d{3,4} \d\d:")
INDENTED = lazy_re(r"^(?:\s|[\^~|+│╭╰]|$)")
HANDLED = lazy_re(
    r"\b(?:caught|handled|ignor(?:ed|ing)|skipp(?:ed|ing)|proceeding|continuing|(?:fall(?:s|ing)?|fell) back|"
    r"recover(?:ed|ing)|halving)\b"
    r"(?! (?:signal|sig[a-z]{3,6}\b|exception|collective|[\w.]{0,60}(?:Error|Exception)\b))",
    re.IGNORECASE,
)
"""By which a line says itself that what it tells did not end the program. Not here: tries, of which the last may fail;
"Caught signal 11", "Caught KeyError in DataLoader worker", "Watchdog caught collective operation timeout"."""
PROSE = lazy_re(
    r"\b(?:(?:could|may|might|can) (?:also )?be\b|for example|e\.g\.|such as\b|possibl[ey]\b|potential\w*|"
    r"one of the following|deadlock-prone|typically|often caused)",
    re.IGNORECASE,
)
"""By which a line says what might have happened, where the message that it resembles does not say so itself."""
SENTENCE = lazy_re(r"[.;](?=\s|$|[A-Z])")
OF_A_BUFFER = 8
"""Steps behind the exception of a main program that may have stood in its buffer, which is written when it dies (our
rule of thumb)."""
TURNED_ROUND = 4
"""Lines (our rule of thumb)."""
SHELL = frozenset({"command-not-found", "environment-not-made"})
LACKING: frozenset[Class] = frozenset(
    {"import", "file-missing", "dependency-mismatch", "driver", "no-device", "permission", "config", "assertion"}
)
"""What a program dies of for want of what a command before it should have done."""


def mark(facts: Facts, ends: Mapping[str, Sequence[tuple[int, str]]]) -> None:
    """Mark what the program lived through. `ends`: the last lines of each file."""
    for event in facts.events:
        if event.symptom.role == "cause":
            event.lived_on = HANDLED.search(event.at.text) is not None or _is_prose(event)
    tracebacks = spoken(facts)
    alone = facts.alone
    deaths = [
        traceback
        for traceback in tracebacks
        if traceback.kind in ("own", "cause") and _begins(traceback) in OF_A_MAIN_PROGRAM
    ]
    for traceback in tracebacks:
        is_last = traceback.first.type == tracebacks[-1].first.type
        traceback.told.lived_on |= traceback.told.traceback.of_a_task and not is_last
    lines_told = frozenset(_told(facts))
    runs_before = [
        each for each, then in pairwise(deaths) if alone and _is_of_a_run_before(each, then, ends, lines_told)
    ]
    facts.survived += [each.told for each in runs_before]
    facts.tracebacks = [told for told in facts.tracebacks if not any(told is each.told for each in runs_before)]
    for event in (event for each in runs_before for event in each.events):
        event.lived_on = True
    for death in deaths:
        for event in _before(facts.events, death):
            if event.symptom.id in SHELL:
                event.lived_on |= not _may_follow(death)
            elif alone and event.symptom.role == "cause" and _of_the_program(event, tracebacks):
                event.lived_on |= _went_on(event.at, death, ends, lines_told)
        for traceback in tracebacks if alone else ():
            if _is_logged_before(traceback, death):
                last = Line(traceback.told.at.file, traceback.told.traceback.last_line, "")
                traceback.told.lived_on |= _went_on(last, death, ends, lines_told)
                for event in traceback.events:
                    event.lived_on |= traceback.told.lived_on


def of_a_record(traceback: Traceback, end: Sequence[tuple[int, str]]) -> bool:
    """Somebody caught it, and a logger wrote it directly behind its record of a warning, or words that it may be
    ignored. Or Tornado's did, four columns in behind the record that it belongs to, and wrote more behind it: what a
    request of a server (Jupyter's) raised."""
    above = next((text for number, text in end if number == traceback.first_line - 1), "")
    if HARMLESS.search(above) and above.startswith(traceback.prefix):
        return traceback.raised[-1].outermost not in OF_A_PROCESS
    if OF_NO_ERROR.search(above):
        return traceback.raised[-1].outermost not in OF_A_PROCESS and not traceback.prefix.strip()
    if not traceback.prefix or traceback.prefix.strip():
        return False
    before = [text for number, text in end if number < traceback.first_line and not text.startswith(" ")]
    behind = [text for number, text in end if number > traceback.last_line]
    return bool(before) and all(any(map(RECORD.match, texts)) for texts in (before[-1:], behind))


def died_of(told: ToldTraceback, course: CourseSeen) -> bool:
    """Nobody caught it, and no step is told behind it: "done" then is what the script says that started the program.
    Nor more than it had kept in its buffer, where it begins behind a bar that was still drawn on its line."""
    if _is_uncaught(told) and told.traceback.raised[-1].name == OF_TORCHRUN:
        return True  # with --tee it writes what was left in its buffer behind its own end
    most = OF_A_BUFFER if breaks_a_bar(told, course) else 1
    return _is_uncaught(told) and course.moved_after(told.traceback.last_line) < most


def ended_of(told: ToldTraceback, facts: Facts) -> bool:
    """Nobody caught it, torchrun tells behind it that this rank has failed, and the rank raised nothing later: steps
    between are what a rank, whose output has no mark, had kept in its buffer."""
    return (
        told.rank is not None
        and _is_uncaught(told)
        and any(each.rank == told.rank and each.exit.exitcode == 1 and _is_behind(each, told) for each in facts.exits)
        and not any(each.rank == told.rank and _is_behind(each, told) for each in facts.tracebacks)
    )


def _is_behind(one: Told, other: Told) -> bool:
    return one.at.file == other.at.file and one.at.line > other.at.line


def is_last(told: ToldTraceback, course: CourseSeen) -> bool:
    """Nobody caught it, and so little stands behind it, of which nothing goes on, that who put both of the program's
    streams together (wandb, a kubelet, a scheduler) may have turned them round."""
    few = told.lines_after <= TURNED_ROUND and not course.moved_after(told.traceback.last_line)
    return _is_uncaught(told) and few


def _is_uncaught(told: ToldTraceback) -> bool:
    return told.traceback.raised[-1].outermost in OF_A_MAIN_PROGRAM


def breaks_a_bar(told: ToldTraceback, course: CourseSeen) -> bool:
    begins = told.traceback.first_line
    return any(number == begins and HEADER in text and BAR.search(text) for number, text in course.end)


def _is_prose(event: Event) -> bool:
    """The sentence weighs what might be, and those that the symptom is about do not."""
    match = event.symptom.pattern.search(event.at.text)
    if match is None or any(map(PROSE.search, event.symptom.samples)):
        return False
    before, after = SENTENCE.split(event.at.text[: match.start()])[-1], SENTENCE.split(event.at.text[match.end() :])[0]
    return PROSE.search(before + match[0] + after) is not None


def _begins(traceback: Spoken) -> str:
    """The function in which the stack of the last exception of a chain begins."""
    return traceback.last.outermost


def _is_of_a_run_before(
    one: Spoken, then: Spoken, ends: Mapping[str, Sequence[tuple[int, str]]], lines_told: frozenset[tuple[str, int]]
) -> bool:
    """The same program's main module died twice, with what a start tells between: a process dies once."""
    started = "<module>" == _begins(one) == _begins(then) and one.last.first_file == then.last.first_file
    last = Line(one.told.at.file, one.told.traceback.last_line, "")
    in_order = last.file == then.told.at.file and last.line < then.told.traceback.first_line
    return started and in_order and _went_on(last, then, ends, lines_told)


def _is_logged_before(traceback: Spoken, death: Spoken) -> bool:
    """An exception that somebody caught and wrote down, before the one that ended the program."""
    return (
        traceback.told.at.file == death.told.at.file
        and traceback.told.traceback.last_line < death.told.traceback.first_line
        and _begins(traceback) not in OF_A_PROCESS
        and traceback.kind in ("own", "cause")
    )


def _may_follow(death: Spoken) -> bool:
    judged = judged_exception(death.first.type, death.first.all_words, death.first.innermost, death.first.raised_by)
    return judged.kind in LACKING


def _before(events: Sequence[Event], death: Spoken) -> Iterator[Event]:
    at = death.told.traceback.first_line
    return (event for event in events if event.at.file == death.told.at.file and event.at.line < at)


def _of_the_program(event: Event, tracebacks: Sequence[Spoken]) -> bool:
    """A line that the program wrote, and no part of a traceback."""
    return not OTHERS.search(event.at.text) and not any(
        traceback.told.at.file == event.at.file
        and traceback.told.traceback.first_line <= event.at.line <= traceback.told.traceback.last_line
        for traceback in tracebacks
    )


def _told(facts: Facts) -> Iterator[tuple[str, int]]:
    yield from ((event.at.file, event.at.line) for event in facts.events if event.symptom.role != "context")
    for traceback in facts.tracebacks:
        for number in range(traceback.traceback.first_line, traceback.traceback.last_line + 1):
            yield traceback.at.file, number


def _went_on(
    fault: Line, death: Spoken, ends: Mapping[str, Sequence[tuple[int, str]]], lines_told: frozenset[tuple[str, int]]
) -> bool:
    """Ordinary lines of the program stand between a fault and the exception by which it ended."""
    first = death.told.traceback.first_line
    between = (
        text
        for number, text in ends.get(fault.file, ())
        if fault.line < number < first and (fault.file, number) not in lines_told
    )
    return sum(map(_ordinary, between)) >= WENT_ON


def _ordinary(text: str) -> bool:
    said = unprefixed(text) if text else ""
    return not (
        INDENTED.match(said) or FRAME.match(said) or OTHERS.search(text) or WARNING.search(text) or TROUBLE.search(text)
    )


def moves_behind(told: Told, course: CourseSeen) -> int:
    """Lines of progress behind it, but those by which another rank tells of its own: of what keeps this one they know
    nothing, and one that makes no collective any more goes on for long."""
    others = {number for number, text in course.end if said_by(text) not in (None, told.rank)}
    return sum(number > told.at.line and (told.rank is None or number not in others) for number in course.moves)
