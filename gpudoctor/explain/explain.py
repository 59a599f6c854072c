"""Logs -> why the job failed or stands: the one function."""

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from gpudoctor.cause import Blame, Judged, Restart
from gpudoctor.causes import CAUSES
from gpudoctor.explain.above import TELL_ONLY_AN_END, narrowed, refitted, texts_of, undecided_fix
from gpudoctor.explain.alike import classed
from gpudoctor.explain.archives import is_tar, members, opened
from gpudoctor.explain.attended import attended
from gpudoctor.explain.beside import beside, with_beside
from gpudoctor.explain.classes import REFUSES
from gpudoctor.explain.conclude import ENDED_BY_SCHEDULER, UNDECIDED, Conclusion, conclude
from gpudoctor.explain.course import (
    MILD,
    MOST_END,
    MOST_MOVES,
    MOST_TROUBLE,
    PROGRESS,
    RAISED,
    TAIL,
    TROUBLE,
    WELL,
    WENT_ON,
    Course,
    CourseSeen,
)
from gpudoctor.explain.end_lines import judged_end
from gpudoctor.explain.given import as_given
from gpudoctor.explain.got_over import left_behind, mark_got_over
from gpudoctor.explain.last_words import (
    OF_NO_TABLE,
    last_words,
    of_a_failed_build,
    of_known_words,
    of_nothing,
    of_the_end,
    told_before_a_signal,
)
from gpudoctor.explain.lines import NotALog, Readable, find_logs, open_log
from gpudoctor.explain.lived_on import breaks_a_bar, died_of, ended_of, is_last, mark, moves_behind, of_a_record
from gpudoctor.explain.of_tests import quoted
from gpudoctor.explain.order import Facts, put_together
from gpudoctor.explain.platforms import on_platforms, platforms_of
from gpudoctor.explain.program import UserProgram
from gpudoctor.explain.report import Explanation, Line, LogCause
from gpudoctor.explain.said_before import is_doubted, said_before
from gpudoctor.explain.scan import EXTRA, Event, Scan, Told, ToldTraceback, clean, scan
from gpudoctor.explain.starts import starts
from gpudoctor.explain.state_tables import is_a_row
from gpudoctor.explain.tracebacks import FRAME
from gpudoctor.explain.unspoken import without_unspoken
from gpudoctor.explain.what_ran import of_what_ran
from gpudoctor.explain.writers import writer
from gpudoctor.remedies import remedy_of_line
from gpudoctor.sure import LIKELY, POSSIBLE
from gpudoctor.symptom import Symptom
from gpudoctor.symptoms import TABLE
from gpudoctor.symptoms.match import Matcher

STANDARD_INPUT = "-"
GIVEN = "the text given"
WORST_FIRST: tuple[Course, ...] = ("cut off", "stands", "ended well", "gets on", "not shown")
NOTHING = CourseSeen(course="not shown")
FEW = 5
"""Lines, with blank ones, of what a person types (our own bound)."""
HEADS = ("RuntimeError: ", "bash: line 1: ")
"""What stands before a message in a log and is left away when one types it."""
TELLS_LITTLE = ("exception", "other", "config")
"""Classes that words alone do not show of a line that may be no error at all."""
THINGS = ("checkpoint", "data")
"""Classes by the words for things of which every log speaks; a line that refuses nothing tells no fault of them."""
BY_SIGNAL = ("native-crash", "rank-died")
"""Causes that tell only how a process ended."""
OTHER = Judged("other", "program", "not decided")


class Interrupted(Exception):
    """Ctrl-C while reading; carries what was found until then."""

    def __init__(self, explanation: Explanation) -> None:
        super().__init__("interrupted")
        self.explanation = explanation


def explain(
    paths: Sequence[str],
    *,
    stdin: BinaryIO,
    texts: Sequence[str] = (),
    table: tuple[Symptom, ...] = TABLE,
    typed: bool = True,
    program: UserProgram | None = None,
) -> Explanation:
    """Read logs ("-" is `stdin`; a folder or a tar: the logs in it; `texts`: lines themselves) and say what they show.
    `typed`: one line in which nothing is found may be a message as people type it. `program`: what tells of the user's
    program, where it is on this machine.

    Never raises for what a log holds, nor for one that cannot be read (`unreadable` says so). Raises `Interrupted`.
    """
    files, unreadable = find_logs(list(paths))
    matcher = Matcher(table, EXTRA)
    scans: list[Scan] = []
    interrupted = False
    for found in _scans(files, texts, stdin, matcher):
        if found.reason:
            unreadable[found.file] = found.reason
        if not found.reason or found.lines:
            scans.append(found)
        if found.interrupted:
            interrupted = True
            break
    seen = attended(scans)
    facts = put_together(scans, seen)
    ends = {found.file: found.course.end for found in scans}
    _leave_out_survived(facts, {found.file: found.course for found in scans})
    mark(facts, ends)
    mark_got_over(facts, ends, {found.file: found.course.moves for found in scans}, _more_steps(facts))
    concluded = conclude(facts, stands=any(found.course.retrying for found in scans), program=program)
    course, words, trouble = _course(scans)
    survived = {(told.at.file, number) for told in facts.survived for number in told.traceback.lines}
    trouble = tuple(line for line in trouble if (line.file, line.line) not in survived)
    course = "not shown" if seen and course in WELL else course
    at_issue = left_behind(trouble, ends) if course == "not shown" else trouble
    shown = {found.file: found.course.shown for found in scans}
    went_on = _went_on(scans, facts) or _lived_through(scans, facts)
    if went_on and seen and concluded.causes:  # something ended it all the same
        concluded = _less_sure(concluded)
    elif went_on:
        concluded = Conclusion(causes=(), unknown=None, consequences=(), story=concluded.story)
    else:
        lines_told = frozenset((line.file, line.line) for line in _lines_told(facts))
        untold = tuple(line for line in at_issue if (line.file, line.line) not in lines_told)
        if not _decided(concluded) and course != "ended well":
            concluded = last_words(untold, concluded, ends, lines_told, shown)
        if _decided(concluded) and concluded.causes[0].cause in BY_SIGNAL:
            concluded = told_before_a_signal(concluded, ends, lines_told)
        concluded = of_a_failed_build(of_nothing(concluded, ends), ends)
        if _decided(concluded) and is_doubted(concluded.causes[0], lines_told, ends):
            concluded = _less_sure(concluded)
        if concluded.causes or concluded.unknown:
            trouble = () if _decided(concluded) else untold
        if concluded.causes:
            first = narrowed(beside(said_before(concluded.causes[0], facts, ends), ends), ends)
            concluded = structs.replace(concluded, causes=(first, *concluded.causes[1:]))
    if typed and not (concluded.causes or concluded.unknown or interrupted):
        concluded = _typed(scans, concluded, table)
    if not (concluded.causes or concluded.unknown or went_on) and course == "not shown":
        behind = {
            file: [line for line in lines if line[0] > shown[file] and (file, line[0]) not in survived]
            for file, lines in ends.items()
        }
        concluded = of_known_words(at_issue, concluded, behind)
    if not (concluded.causes or concluded.unknown or went_on) and course == "not shown":
        concluded = of_the_end(at_issue, concluded, ends, shown)
    known = bool(concluded.causes or concluded.unknown)
    if concluded.unknown and not concluded.causes and concluded.judged is None and not concluded.waited:
        concluded = structs.replace(concluded, judged=judged_end(ends))
    if known:
        trouble = with_beside(trouble, ends)
    undecided = known and not _decided(concluded)
    judged = _judged(concluded)
    if typed or not texts:  # else it is asked whether the words of one line tell a class by themselves
        is_shown = course != "not shown" or went_on or interrupted
        kind = judged.kind if judged else "other"
        concluded, judged = classed(concluded, judged, trouble, ends, shown=is_shown)
        if concluded.causes:
            causes = (refitted(concluded.causes[0], kind), *concluded.causes[1:])
            concluded = structs.replace(concluded, causes=causes)
    log = texts_of(ends)
    concluded = structs.replace(concluded, causes=tuple(of_what_ran(cause, log) for cause in concluded.causes))
    restart = judged.restart if judged else "not decided"
    answer = Explanation(
        kind=judged.kind if judged else None,
        blame=judged.blame if judged else None,
        restart=restart,
        exclude=concluded.causes[0].nodes if restart == "elsewhere" else (),
        course=course,
        course_words=words,
        trouble=trouble,
        starts=starts(facts, ends) if known or facts.begun else "",
        well=not known and not trouble and course in WELL,
        causes=concluded.causes,
        unknown=concluded.unknown,
        advice=on_platforms(undecided_fix(concluded, trouble, ends, judged), platforms_of("\n".join(log)))
        if undecided
        else "",
        consequences=concluded.consequences,
        story=concluded.story,
        files=tuple(found.file for found in scans),
        lines=sum(found.lines for found in scans),
        bytes=sum(found.bytes for found in scans),
        ranks=tuple(sorted(facts.ranks)),
        unreadable=unreadable,
    )
    if typed and not facts.begun and all(found.bytes < TAIL and len(found.course.end) < MOST_END for found in scans):
        answer = without_unspoken(answer, log)
    answer = as_given(answer, {found.file: found.straight for found in scans if found.straight})
    if interrupted:
        raise Interrupted(answer)
    return answer


def _less_sure(concluded: Conclusion) -> Conclusion:
    """What came first is not decided."""
    causes = tuple(structs.replace(cause, confidence=min(cause.confidence, POSSIBLE)) for cause in concluded.causes)
    first = causes[0]
    unknown = concluded.unknown or f"{first.summary}; what else failed before it, no table knows"
    return structs.replace(concluded, causes=causes, unknown=unknown)


def _decided(concluded: Conclusion) -> bool:
    return bool(concluded.causes) and concluded.causes[0].confidence >= UNDECIDED


def _lines_told(facts: Facts) -> Iterator[Line]:
    """Lines of which something is known."""
    yield from (event.at for event in facts.events)
    yield from (ended.at for ended in facts.exits)
    for traceback in (*facts.tracebacks, *facts.survived):
        yield from (Line(traceback.at.file, number, "") for number in traceback.traceback.lines)


def _went_on(scans: list[Scan], facts: Facts) -> bool:
    """What failed did not end the job: every log that tells of it goes on, or ends well, behind it.

    What ranks say of each other's ends behind a good end is no fault; a rank that raised and says nothing more did not
    go on, though others do."""
    course = {found.file: found.course for found in scans}
    last: dict[str, int] = {}
    told: tuple[Told, ...] = (
        *(
            event
            for event in facts.events
            if event.symptom.role == "cause"
            or (event.symptom.role != "context" and not 0 < course[event.at.file].ended < event.at.line)
        ),
        *facts.tracebacks,
        *(ended for ended in facts.exits if ended.exit.exitcode not in (None, 0)),
    )
    for each in told:
        last[each.at.file] = max(last.get(each.at.file, 0), each.at.line)
    if any(_silent_since(traceback, course[traceback.at.file]) for traceback in facts.tracebacks):
        return False
    by_scheduler = (event.at for event in facts.events if event.symptom.cause in ENDED_BY_SCHEDULER)
    if any(course[at.file].only_drawn_after(at.line) for at in by_scheduler):
        return False
    if any(died_of(traceback, course[traceback.at.file]) for traceback in facts.tracebacks):
        return False
    aborted = [event for event in facts.events if event.symptom.id in ABORTED]
    if any(not _moves_behind(event, course, _more_steps(facts)) for event in aborted):
        return False
    return bool(last) and all(course[file].went_on_after(line) for file, line in last.items() if file in course)


OF_ITS_OWN: tuple[Blame, ...] = ("program", "user", "environment")


def _lived_through(scans: list[Scan], facts: Facts) -> bool:
    """One process told all that failed, and a step behind it: a process that dies of what it raised does no step more.

    Not what comes from outside (a node, a scheduler, a fabric), after which a program runs on for a while; and not
    where several ranks write, of which another may do the step."""
    if len(scans) != 1 or len(facts.ranks) > 1 or facts.exits or facts.world_size:
        return False
    if any(breaks_a_bar(told, scans[0].course) or is_last(told, scans[0].course) for told in facts.tracebacks):
        return False
    seen = scans[0].course
    events = [event for event in facts.events if event.symptom.role != "context"]
    if any(event.symptom.role != "cause" or not _is_its_own(event) for event in events):
        return False
    told: tuple[tuple[int, bool], ...] = (
        *((event.at.line, RAISED.search(event.at.text) is not None) for event in events),
        *((traceback.traceback.last_line, True) for traceback in facts.tracebacks),
    )
    return bool(told) and all(seen.stepped_after(line, raised=raised) for line, raised in told)


def _is_its_own(event: Event) -> bool:
    known = CAUSES.get(event.symptom.cause)
    return known is not None and known.judge(event.symptom.variant).blame in OF_ITS_OWN


ABORTED = ("watchdog-timeout", "watchdog-position", "watchdog-dump-signal", "watchdog-takes-down")
"""Of a rank whose communicator torch has given up: its waits end, and it may begin another step before it is ended."""


def _more_steps(facts: Facts) -> int:
    """Lines of progress behind such a line that still show nothing: two of each rank."""
    return min(WENT_ON + 2 * max(1, len(facts.ranks)), MOST_MOVES)


def _moves_behind(event: Told, course: Mapping[str, CourseSeen], most: int) -> bool:
    return moves_behind(event, course[event.at.file]) >= most


OF_A_START = "lightning-member"
"""Tells who has come: where the job gets on, all have, and the others' lines stand in other logs."""


def _leave_out_survived(facts: Facts, course: Mapping[str, CourseSeen]) -> None:
    """Where a cause stands at the end, faults after which the job got on were none of its end."""
    ends = [(event.at.file, event.at.line) for event in facts.events if event.symptom.role == "cause"]
    ends += [(traceback.at.file, traceback.traceback.first_line) for traceback in facts.tracebacks]

    def survived(file: str, line: int) -> bool:
        behind = [number for number in course[file].moves if number > line]
        return len(behind) >= WENT_ON and any(where == file and later > behind[WENT_ON - 1] for where, later in ends)

    most = _more_steps(facts)
    of_tests = {(file, number) for file, seen in course.items() for number in quoted(seen.end)}
    facts.events = [event for event in facts.events if (event.at.file, event.at.line) not in of_tests]
    facts.events = [
        event for event in facts.events if event.symptom.id != OF_A_START or not _moves_behind(event, course, WENT_ON)
    ]
    counts = [
        _silent_since(traceback, course[traceback.at.file])
        or ended_of(traceback, facts)
        or not (
            survived(traceback.at.file, traceback.traceback.last_line)
            or of_a_record(traceback.traceback, course[traceback.at.file].end)
            or (traceback.at.file, traceback.traceback.first_line) in of_tests
        )
        for traceback in facts.tracebacks
    ]
    facts.survived = [told for told, does in zip(facts.tracebacks, counts, strict=True) if not does]
    facts.tracebacks = [told for told, does in zip(facts.tracebacks, counts, strict=True) if does]
    raised = {(told.at.file, number) for told in facts.tracebacks for number in told.traceback.lines}
    aborted = [event for event in facts.events if event.symptom.id in ABORTED]
    stands = any(not _moves_behind(event, course, most) for event in aborted)
    moving = {event.rank for event in aborted if event.rank is not None and _moves_behind(event, course, most)}
    facts.gets_on = moving if stands else set()
    facts.events = [
        event
        for event in facts.events
        if event.symptom.role == "context"
        or not survived(event.at.file, event.at.line)
        or (event.at.file, event.at.line) in raised  # what an exception says holds as long as it does
        or (event.symptom.id in ABORTED and stands)  # one rank may get on by itself while others wait
    ]


def _silent_since(traceback: ToldTraceback, course: CourseSeen) -> bool:
    """The rank that raised wrote nothing more, though ranks are told apart behind it; the job has not ended well."""
    own = traceback.rank if traceback.pid is None else traceback.pid  # Ray's marks tell no rank
    if own is None or course.ended > traceback.at.line:
        return False
    behind = [writer(text) for number, text in course.end if number > traceback.traceback.last_line]
    others = {who.rank if traceback.pid is None else who.pid for who in behind} - {None}
    return bool(others) and own not in others


def _typed(scans: list[Scan], concluded: Conclusion, table: tuple[Symptom, ...]) -> Conclusion:
    """What one line without a fault says if it is a message as people type it: without the exception's name, which the
    rules wait for. In a log of several lines most are no such message."""
    lines = [(found.file, number, text) for found in scans for number, text in found.course.end if text.strip()]
    if len(lines) != 1 or sum(found.lines for found in scans) > FEW:
        return concluded
    ((file, number, text),) = lines
    if writer(text).length or any(form.search(text) for form in (PROGRESS, MILD, FRAME)) or is_a_row(text):
        return concluded  # a line of a log, which tells what it is of by itself
    refuses = TROUBLE.search(text) or REFUSES.search(text) or remedy_of_line(text)
    for head in HEADS:
        named = explain((), stdin=io.BytesIO(), texts=(f"{head}{text.strip()}",), table=table, typed=False)
        if named.causes and named.causes[0].kind not in (TELLS_LITTLE if refuses else (*TELLS_LITTLE, *THINGS)):
            line = Line(file, number, clean(text))
            return structs.replace(concluded, causes=tuple(_unnamed(cause, head, line) for cause in named.causes))
    return concluded


def _unnamed(cause: LogCause, head: str, line: Line) -> LogCause:
    """Without what was put in front of the line."""
    summary = cause.summary.replace(head, "")
    return structs.replace(cause, confidence=min(cause.confidence, LIKELY), evidence=(line,), summary=summary)


def _judged(concluded: Conclusion) -> Judged | None:
    """What a program is told; where no cause is decided, the class, and that a restart does not help if all say so."""
    if concluded.causes and concluded.causes[0].confidence >= UNDECIDED:
        first = concluded.causes[0]
        return Judged(first.kind, first.blame, first.restart)
    if concluded.waited:
        return Judged("nccl-timeout", "program", "not decided")
    if concluded.causes:
        first = concluded.causes[0]
        is_quoted = (concluded.unknown or "").startswith(OF_NO_TABLE)
        if first.kind in TELL_ONLY_AN_END and concluded.judged is not None and is_quoted:
            return structs.replace(concluded.judged, restart=_agreed({concluded.judged.restart}))
        return Judged(first.kind, first.blame, _agreed({cause.restart for cause in concluded.causes}))
    if concluded.unknown:
        judged = concluded.judged or OTHER
        return structs.replace(judged, restart=_agreed({judged.restart}))
    return concluded.judged


def _agreed(restarts: set[Restart]) -> Restart:
    """What all candidates say of a restart: that it does not help. That it does is said of a decided cause only."""
    return "after a fix" if restarts == {"after a fix"} else "not decided"


def _course(scans: list[Scan]) -> tuple[Course, str, tuple[Line, ...]]:
    """Of all logs together: one that is cut off or stands says more than one that gets on."""
    worst = min((found.course for found in scans), key=lambda seen: WORST_FIRST.index(seen.course), default=NOTHING)
    trouble = tuple(Line(found.file, number, clean(text)) for found in scans for number, text in found.course.trouble)
    return worst.course, worst.words, trouble[:MOST_TROUBLE]


def _scans(files: list[str], texts: Sequence[str], stdin: BinaryIO, matcher: Matcher) -> Iterator[Scan]:
    """One a log."""
    for text in texts:
        matcher.begin()
        yield scan(io.BytesIO(text.encode("utf-8", "replace")), GIVEN, matcher, modified=time.time())
    for file in files:
        try:
            if file == STANDARD_INPUT:
                raw, of_tar = opened(stdin)
                if of_tar:
                    yield from _of_tar(raw, "standard input", matcher)
                else:
                    matcher.begin()
                    yield scan(raw, "standard input", matcher, modified=time.time())
            elif is_tar(file):
                with open_log(file) as stream:
                    yield from _of_tar(stream, file, matcher)
            else:
                yield _scanned(file, matcher)
        except NotALog as problem:
            yield Scan(file=file, reason=str(problem))


def _of_tar(raw: Readable, file: str, matcher: Matcher) -> Iterator[Scan]:
    for name, member in members(raw):
        matcher.begin()
        yield scan(member, f"{file}:{clean(name)}", matcher)


def _scanned(file: str, matcher: Matcher) -> Scan:
    matcher.begin()
    try:
        modified: float | None = Path(file).stat().st_mtime
    except (OSError, ValueError):
        modified = None
    with open_log(file) as raw:
        return scan(raw, file, matcher, modified=modified)
