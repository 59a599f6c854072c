"""One log -> what it shows: symptoms, tracebacks, processes that ended, ranks that it speaks of. Bounded, streaming."""

import time
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from gpudoctor import cost
from gpudoctor.explain.behind import lines_behind
from gpudoctor.explain.course import CourseSeen, LogEnd
from gpudoctor.explain.lines import Block, NotALog, Readable, blocks
from gpudoctor.explain.own_lines import is_over, own_lines
from gpudoctor.explain.report import Line
from gpudoctor.explain.runs import Runs, last_of
from gpudoctor.explain.stacks import STACK, Stack, read_stack
from gpudoctor.explain.straight import Straight
from gpudoctor.explain.tracebacks import (
    HEADER,
    Traceback,
    read_escaped,
    read_headless,
    read_traceback,
)
from gpudoctor.explain.writers import Writer, file_writer, rank_in_words, writer
from gpudoctor.knowledge.pytorch.torchrun_exits import NEEDLES as EXIT_NEEDLES, LauncherExit, read_exit
from gpudoctor.knowledge.wording import shortened
from gpudoctor.lazy import lazy_re
from gpudoctor.symptom import Symptom
from gpudoctor.symptoms.match import Matcher, Suspect

EXTRA = (HEADER, STACK, *EXIT_NEEDLES)
STACK_BYTES, HEADER_BYTES, FRAME_BYTES = STACK.encode(), HEADER.encode(), b'  File "'
EXIT_BYTES = frozenset(needle.encode() for needle in EXIT_NEEDLES)
MOST_EVENTS = 50_000
MOST_OF_ONE = 64
"""Events of one symptom by one writer."""
MOST_CONTEXT = 4
"""Events of one symptom that is no fault, by one writer."""
MOST_OF_SYMPTOM = 8_000
"""Events of one symptom, of all writers."""
MOST_WITHOUT_TIME = 50
"""Lines in a row around which no time was found; then the log is taken for one without."""
SAME_MOMENT = 1.0
"""Seconds within which times of two files tell no order: log stamps, and clocks of several machines."""
MOST_TRACEBACKS = 5_000
MOST_EXITS = 20_000
UNRAISABLE = b"Exception ignored in"
"""Before a traceback that ended nothing (CPython's PyErr_WriteUnraisable)."""
LONGEST_TEXT = 500
LOOK_BACK = 40
"""Lines before one without a time or a prefix in which its writer's time is looked for."""
SAMPLE = 32 * 1024  # bytes of each block in which ranks are looked for that show nothing else
RANKS = lazy_re(rb"(?:^|\n)\[(?:rank|default)(\d{1,6})\]:|\[Rank (\d{1,6})\]| rank (\d{1,6}) nranks ")
PREFIXED = lazy_re(rb"(?:^|\n)\[(?:rank|default)(\d{1,6})\]:")
OWN_RANKS = lazy_re(rb"(?:^|\n)\[?[Rr]ank[ :=]{0,2}(\d{1,6})\b")
CONTROLS = lazy_re(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")
PARTS = lazy_re(rb"(?:(?<=[^\n\t ])|(?<=\(Pdb\) )|(?<=ipdb> ))(?<!t\d\]:)(?<!t\d\d\]:)(?=\[(?:rank|default)\d{1,6}\]:)")
"""Where another rank's line begins in the middle of one: both wrote at once, or behind one's prompt. A mark of torchrun
and one of torch behind it are of one line."""


class Moment(Struct, frozen=True):
    """Where something stands: for telling what came first."""

    file: str
    line: int
    time: float | None = None

    def is_before(self, other: "Moment") -> bool:
        """False too where that cannot be told."""
        if self.file == other.file:
            return self.line < other.line
        if self.time is None or other.time is None:
            return False
        return self.time + SAME_MOMENT < other.time


class Told(Struct, kw_only=True):
    """What a line tells, and who wrote it."""

    at: Line
    """The line: at most 500 characters, without colours and control characters."""
    rank: int | None = None
    """Whose line it is, from its own words or its prefix ("[rank3]:", "[default3]:", "3: ")."""
    local_rank: int | None = None
    host: str = ""
    pid: int | None = None
    time: float | None = None
    """Seconds since the epoch (local times taken as UTC), where the line or one before it of the same writer tells."""
    lived_on: bool = False
    """The program went on behind it (gpudoctor.explain.lived_on)."""

    @property
    def moment(self) -> Moment:
        return Moment(self.at.file, self.at.line, self.time)


class Event(Told, kw_only=True):
    """A line that shows a symptom."""

    symptom: Symptom
    values: dict[str, str]
    of_the_end: bool = False
    """Whoever attended the job has seen this too (gpudoctor.explain.attended)."""
    after: tuple[Line, ...] = ()
    """Lines behind it that say more: what a colon announces, and where a crash was."""


class ToldTraceback(Told, kw_only=True):
    traceback: Traceback
    lines_after: int = 0
    """How many lines the log goes on behind it."""

    @property
    def moment(self) -> Moment:
        return Moment(self.at.file, self.traceback.first_line, self.time)


class ToldStack(Told, kw_only=True):
    """What a watchdog writes of the collective that did not end."""

    stack: Stack


class ToldExit(Told, kw_only=True):
    exit: LauncherExit


class Scan(Struct, kw_only=True):
    """What a log shows."""

    file: str
    lines: int = 0
    bytes: int = 0
    events: list[Event] = field(default_factory=list)
    tracebacks: list[ToldTraceback] = field(default_factory=list)
    stacks: list[ToldStack] = field(default_factory=list)
    exits: list[ToldExit] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Symptom -> how many lines show it, those included that are no event."""
    ranks: set[int] = field(default_factory=set)
    """Ranks that wrote something."""
    own_ranks: set[int] = field(default_factory=set)
    """Ranks with whose number lines of the program begin: "rank 2 step 4"."""
    said_last: dict[int, Line] = field(default_factory=dict)
    """Of each rank the last that its program wrote before the time of a collective was up."""
    reason: str = ""
    """Why it could not be read to its end."""
    interrupted: bool = False
    course: CourseSeen = CourseSeen(course="not shown")
    """What its end shows."""
    straight: Straight | None = None
    """Where the lines were not as they were written."""
    begun: tuple[int, ...] = ()
    """Where the later ones of several runs begin; all above is the last one's."""
    earlier: list[Told] = field(default_factory=list)
    """What the runs before told."""

    def failed(self) -> Iterator[int]:
        """Lines that tell of a failure."""
        yield from (event.at.line for event in self.events if event.symptom.role != "context")
        yield from (traceback.traceback.first_line for traceback in self.tracebacks)
        yield from (ended.at.line for ended in self.exits if ended.exit.exitcode not in (None, 0))


def scan(raw: Readable, file: str, matcher: Matcher, *, modified: float | None = None) -> Scan:
    """Read a log to its end. Never raises but KeyboardInterrupt's like: what ends a pipe is said in the answer."""
    result = Scan(file=file)
    year = time.gmtime(modified if modified is not None else time.time()).tm_year
    state = _Scanning(result, matcher, file_writer(file), year)
    try:
        for block in blocks(raw):
            state.read(block)
            result.straight = block.straight
            cost.progress()
    except (NotALog, cost.Beyond) as error:
        result.reason = str(error)
        cost.progress()
    except MemoryError:
        result.reason = cost.memory_met() or "it takes more memory than there is"
    except KeyboardInterrupt:
        result.interrupted = True
    result.course = state.tail.seen(result.lines)
    state.headless()
    state.last_run()
    if state.of_file.rank is not None and "rank" in file.rpartition("/")[2].lower():  # a worker may be a node
        result.ranks.add(state.of_file.rank)
    for traceback in result.tracebacks:
        traceback.lines_after = result.lines - traceback.traceback.last_line
    return result


class _Scanning:
    def __init__(self, found: Scan, matcher: Matcher, of_file: Writer, year: int) -> None:
        self.found, self.matcher, self.of_file, self.year = found, matcher, of_file, year
        self._stored: Counter[tuple[str, int | None, str]] = Counter()
        self._of_symptom: Counter[str] = Counter()
        self._without_time = 0
        self._before: list[bytes] = []
        self._time_is_up = False
        self._runs = Runs()
        self._failed_at: int | None = None
        self.tail = LogEnd()

    def read(self, block: Block) -> None:
        result = self.found
        result.bytes += block.raw_bytes
        if not block.text:
            return
        self.tail.add(block.text)
        sample = block.text[:SAMPLE]
        for groups in set(RANKS.findall(sample)):
            result.ranks.add(int(next(filter(None, groups))))
        result.own_ranks.update(map(int, set(OWN_RANKS.findall(sample))))
        if self.of_file.rank is not None and len(set(PREFIXED.findall(sample + block.text[-SAMPLE:]))) > 1:
            self.of_file = Writer()  # several ranks write into it: its name is that of a program, or of a job
        if not self._time_is_up:
            for rank, number, own in own_lines(block.text, block.first_line, self.of_file.rank):
                result.said_last[rank] = Line(result.file, number, clean(own.decode(errors="replace")))
            self._time_is_up = is_over(block.text)
        extended: list[bytes] | None = None
        for line, needles, lines in self.matcher.candidates(block.text, block.first_line):
            if extended is None:
                end = len(lines) - 1 if block.text.endswith(b"\n") else len(lines)
                extended = lines[:end] + block.ahead.replace(b"\r", b"\n\r").split(b"\n")
            self._candidate(line, needles, extended)
        if self._failed_at is None:
            self._failed_at = min(result.failed(), default=None)
        self._runs.read(block, self._failed_at)
        result.lines = block.first_line + block.text.count(b"\n") - (1 if block.text.endswith(b"\n") else 0)
        tail = block.text[-8192:].split(b"\n")
        self._before = tail[1:-1] if block.text.endswith(b"\n") else tail[1:]

    def _candidate(self, line: Suspect, needles: tuple[bytes, ...], lines: list[bytes]) -> None:
        text = line.text
        parts = PARTS.split(text) if b"[rank" in text or b"[default" in text else [text]
        for part in parts:
            if len(parts) > 1 and not any(needle in part for needle in needles):
                continue
            if HEADER_BYTES in needles and HEADER_BYTES in part:
                self._traceback(line, part, self._who(line, part, lines), lines)
            if STACK_BYTES in needles and STACK_BYTES in part:
                self._stack(line, self._who(line, part, lines), lines)
            if not EXIT_BYTES.isdisjoint(needles) and any(needle in part for needle in EXIT_BYTES):
                self._exit(line, self._who(line, part, lines), lines)
            matched = self.matcher.matches(part, needles)
            if matched:
                self.matcher.has_matched(line)
            for symptom, values in matched:
                self._event(symptom, values, line, part, lines)

    def _who(self, line: Suspect, part: bytes, lines: list[bytes]) -> Writer:
        """The writer of a line, with a time where the line or one before tells it."""
        return self._with_time(self._writer(part), line, lines)

    def _writer(self, part: bytes) -> Writer:
        text = part[:2000].decode("utf-8", "replace").lstrip("\r")
        who = writer(text, self.year)
        if who.rank is None and self.of_file.rank is not None:
            who = who._replace(rank=self.of_file.rank)
        if who.local_rank is None and self.of_file.local_rank is not None:
            who = who._replace(local_rank=self.of_file.local_rank)
        if who.rank is not None:
            self.found.ranks.add(who.rank)
        return who

    def _with_time(self, who: Writer, line: Suspect, lines: list[bytes]) -> Writer:
        """Where the line does not tell the time, that of the last one before which tells it."""
        if who.time is not None or self._without_time > MOST_WITHOUT_TIME:
            return who
        moment = next(self._times_before(line, lines, who), None)
        self._without_time = self._without_time + 1 if moment is None else 0
        return who._replace(time=moment)

    def _times_before(self, line: Suspect, lines: list[bytes], who: Writer) -> Iterator[float]:
        """Times of the lines before, the nearest first; of the same rank where the line tells one."""
        near = lines[max(0, line.index - LOOK_BACK) : line.index]
        if len(near) < LOOK_BACK:
            near = self._before[-(LOOK_BACK - len(near)) :] + near
        for raw in reversed(near):
            other = writer(raw[:300].decode("utf-8", "replace"), self.year)
            if other.time is not None and (other.rank == who.rank or other.rank is None):
                yield other.time

    def _traceback(self, line: Suspect, part: bytes, who: Writer, lines: list[bytes]) -> None:
        result = self.found
        if len(result.tracebacks) >= MOST_TRACEBACKS:
            return
        inside = next(
            (
                traceback
                for traceback in reversed(result.tracebacks[-64:])
                if traceback.traceback.first_line <= line.number <= traceback.traceback.last_line
                and (traceback.rank == who.rank or traceback.traceback.rank is not None)
                and traceback.local_rank == who.local_rank
            ),
            None,
        )
        if inside is not None:  # a later one of a chain that was read with its first
            return
        if line.index and UNRAISABLE in lines[line.index - 1]:
            return
        here = lines[line.index]
        lines = lines if part is here else [*lines[: line.index], part, *lines[line.index + 1 :]]
        traceback = read_escaped(part, line.number) or read_traceback(lines, line.index, line.number)
        if traceback.raised:
            self._told(traceback, who)

    def _told(self, traceback: Traceback, who: Writer) -> None:
        result = self.found
        last = traceback.raised[-1]
        message = f"{last.type}: {last.message}" if last.message else last.type
        result.tracebacks.append(
            ToldTraceback(
                at=Line(result.file, last.line, clean(message)),
                rank=who.rank if traceback.rank is None else traceback.rank,
                local_rank=who.local_rank,
                host=who.host,
                pid=who.pid,
                time=who.time,
                traceback=traceback,
            )
        )

    def headless(self) -> None:
        """Tracebacks whose beginning was not pasted; a SyntaxError has none. Looked for at the end of the log only."""
        first, lines = self.tail.lines(self.found.lines)
        if FRAME_BYTES not in self.tail.text:
            return
        inside = [
            (traceback.traceback.first_line, traceback.traceback.last_line) for traceback in self.found.tracebacks
        ]
        over = 0
        for index, raw in enumerate(lines):
            number = first + index
            if HEADER_BYTES in raw and index and UNRAISABLE in lines[index - 1]:
                over = max(over, read_traceback(lines, index, number).last_line)
            if number <= over or FRAME_BYTES not in raw or any(start <= number <= end for start, end in inside):
                continue
            if len(self.found.tracebacks) >= MOST_TRACEBACKS:
                return
            traceback = read_headless(lines, index, number)
            if traceback is not None:
                self._told(traceback, self._writer(raw))
                over = traceback.last_line

    def last_run(self) -> None:
        """Of several runs in the log the last one is told, and what those before told is kept apart."""
        result = self.found
        begun, ended = self._runs.begun(), self._runs.ended(result.lines)
        if not begun and not ended:
            return
        seen, failed = result.course, tuple(result.failed())
        shown = [*failed, *seen.steps, seen.ended, *(number for number, _ in seen.trouble)]
        result.begun = tuple(last_of(begun, ended, failed, shown, result.lines))
        if not result.begun:
            return
        first = result.begun[-1]
        told: tuple[Told, ...] = (*result.events, *result.tracebacks, *result.exits)
        result.earlier = [each for each in told if each.moment.line < first]
        result.events = [event for event in result.events if event.at.line >= first]
        result.tracebacks = [traceback for traceback in result.tracebacks if traceback.moment.line >= first]
        result.exits = [ended for ended in result.exits if ended.at.line >= first]
        result.stacks = [stack for stack in result.stacks if stack.at.line >= first]
        result.said_last = {rank: line for rank, line in result.said_last.items() if line.line >= first}
        result.course = self.tail.seen(result.lines, since=first)

    def _stack(self, line: Suspect, who: Writer, lines: list[bytes]) -> None:
        stack = read_stack(lines, line.index)
        if stack is not None and len(self.found.stacks) < MOST_TRACEBACKS:
            text = f"{STACK}{stack.collective} at {stack.file}:{stack.at}" if stack.file else STACK + stack.collective
            at = Line(self.found.file, line.number, clean(text))
            self.found.stacks.append(
                ToldStack(at=at, rank=who.rank, local_rank=who.local_rank, host=who.host, time=who.time, stack=stack)
            )

    def _exit(self, line: Suspect, who: Writer, lines: list[bytes]) -> None:
        if len(self.found.exits) >= MOST_EXITS:
            return
        ended = read_exit(lines, line.index, line.number)
        if ended is None:
            return
        moment = writer(ended.date + " ", self.year).time if ended.date else who.time
        self.found.exits.append(
            ToldExit(
                at=Line(self.found.file, ended.line, clean(ended.text)),
                rank=ended.rank,
                local_rank=ended.local_rank,
                host=ended.host or who.host,
                pid=ended.pid,
                time=moment,
                exit=ended,
            )
        )

    def _event(self, symptom: Symptom, values: dict[str, str], line: Suspect, part: bytes, lines: list[bytes]) -> None:
        result = self.found
        result.counts[symptom.id] += 1
        if self._of_symptom[symptom.id] >= MOST_OF_SYMPTOM or len(result.events) >= MOST_EVENTS:
            return
        who = self._writer(part)
        text = around(part, symptom).decode("utf-8", "replace")
        rank = number_in(values.get("rank"))
        for told in result.tracebacks[-1:]:
            rank = told.traceback.rank_at(line.number) if rank is None else rank
        if rank is None:
            rank = who.rank if who.rank is not None else rank_in_words(text, who.length)
        key = symptom.id, rank if rank is not None else who.pid, who.host or values.get("host", "")
        self._stored[key] += 1
        if self._stored[key] > (MOST_CONTEXT if symptom.role == "context" else MOST_OF_ONE):
            return
        self._of_symptom[symptom.id] += 1
        who = self._with_time(who, line, lines)
        result.events.append(
            Event(
                at=Line(result.file, line.number, clean(text)),
                rank=rank,
                local_rank=who.local_rank,
                host=who.host or clean(values.get("host", "")),
                pid=who.pid or number_in(values.get("pid")),
                time=who.time,
                symptom=symptom,
                after=tuple(
                    Line(result.file, line.number + offset, clean(more.decode("utf-8", "replace")))
                    for offset, more in lines_behind(lines, line.index)
                ),
                values={name: clean(value)[:LONGEST_TEXT] for name, value in values.items()},
            )
        )


def around(line: bytes, symptom: Symptom) -> bytes:
    """The part of a long line that shows the symptom."""
    if len(line) <= LONGEST_TEXT:
        return line
    at = next((at for needle in symptom.needles if (at := line.find(needle.encode())) >= 0), 0)
    at = max(0, at - LONGEST_TEXT // 4)
    return (b"..." if at else b"") + line[at : at + 2 * LONGEST_TEXT]


def clean(text: str) -> str:
    """A line without control characters and marks that reorder text, at most `LONGEST_TEXT` characters."""
    return shortened(CONTROLS.sub("", text.replace("\t", " ")).replace("\n", " ").strip(), LONGEST_TEXT)


def number_in(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else None
