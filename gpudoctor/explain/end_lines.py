"""The lines at a log's end that are neither an exception nor a symptom, and that a speaker whom we know has written: by
the remedies for lines; else how somebody tells that a process has ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.cause import Judged
from gpudoctor.explain.course import MILD
from gpudoctor.explain.endings import judged_signal, judged_status_of_end, judged_status_of_windows, signal_named
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import clean
from gpudoctor.explain.writers import writer
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_of_line
from gpudoctor.remedy import Remedy

AT_THE_END = 24
"""Lines behind the last progress that are asked, the last of the log (our rule of thumb)."""
MOST_MORE = 8
"""Lines behind such a line that are read with it."""
OVER = lazy_re(
    r"(?i)\b(?:(?<!please )retry|retrying|skip\w*|ignor\w*|fall\w* back|fallback|caught|handled|continu\w*|"
    r"warning(?!\s{2,}[A-Z])|MESSAGE_TASK_EXIT)\b"
    r"|[,;:.(-] {0,2}(?:so |and |we |will ){0,2}(?:try(?:ing)? to \w{1,20} (?:a )?new|trying (?:another|again|the \w+)"
    r"|us(?:e|ing) [^\n]{0,60}\b(?:instead|defaults?)|will use|(?:default|switch|revert)(?:es|s|ing)? to|proceeding)\b"
)
"""What is tried again, left out or done in another way ended nothing, nor does what slurmstepd cannot report of a task.
"Warning" in a column is what Kubernetes calls each event that is not normal."""
EVENT = lazy_re(r"\bWarning\s{2,}[A-Z]")
STARTED = lazy_re(r"\bNormal\s{2,}(?:Started|Scheduled|Admitted|QuotaReserved)\s")
"""Kubernetes tells what it could not do at once, and then that it has done it: the container has started."""
ENDED = lazy_re(
    r"(?i)(?P<who>[^\n]{0,200}?)\b(?:exit(?:ed|s)?|ended|failed|fails|crashed|died|dies|terminated|finished|returned|"
    r"completed|stopped|killed)\b(?P<how>[^\n]{0,60}?)\b(?:(?:exit|return)[ -]?)?(?:code|status|rc)\b(?: of)?"
    r"\s{0,3}[:=(]?\s{0,12}(?P<code>-?\d{1,10})\b"
)
"""A report of an end, in whatever words launchers, schedulers and scripts have for it."""


OF_HTTP = lazy_re(
    r"(?i)\bhttps?\b|\b(?:request|response|GET|POST|PUT|upload\w*|download\w*|url)\b|"
    r"\bserver\b(?![^\n]{0,20}\b(?:exit\w*|crashed|died|terminated|killed)\b)"
)
"""Of a status that is none of a process."""


SIGNALS = {"Terminated": "TERM", "Killed": "KILL", "Hangup": "HUP", "Interrupt": "INT"}
BY_SIGNAL = lazy_re(
    r"\b(?:srun|prun|slurmstepd)\b[^\n]{0,80}: tasks? [\d,-]{1,60}: (?P<words>Terminated|Killed|Hangup|Interrupt)\b"
)
"""How srun tells a signal that a task ended by (strsignal(3)'s words)."""


class OfSpeaker(NamedTuple):
    line: Line
    more: tuple[Line, ...]
    """What stands directly behind it."""
    remedy: Remedy
    values: Mapping[str, str]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in (self.line, *self.more))


class EndLine(NamedTuple):
    line: Line
    code: int


def last_lines(
    ends: Mapping[str, Sequence[tuple[int, str]]],
    on: Mapping[str, int],
    lines_told: frozenset[tuple[str, int]],
) -> Iterator[Line]:
    """Those that may have ended the job, in their order. `on`: of each file, the last line that shows it getting on."""
    for file, lines in ends.items():
        for number, text in lines[-AT_THE_END:]:
            if number > on.get(file, 0) and (file, number) not in lines_told and not MILD.search(text):
                yield Line(file, number, clean(text))


def is_over(line: Line, later: Sequence[Line]) -> bool:
    """It says itself that it ended nothing, or what stands behind it does."""
    if EVENT.search(line.text) and any(STARTED.search(each.text) for each in later):
        return True
    return OVER.search(line.text) is not None


def of_speakers(lines: Sequence[Line]) -> OfSpeaker | None:
    """The first of whose words it is known what they mean."""
    for index, line in enumerate(lines):
        remedied = None if is_over(line, lines[index + 1 :]) else remedy_of_line(line.text[writer(line.text).length :])
        if remedied is not None and remedied[0].judged is not None:
            more = tuple(each for each in lines[index + 1 : index + 1 + MOST_MORE] if each.file == line.file)
            return OfSpeaker(line, more, *remedied)
    return None


def ends_told(lines: Sequence[Line]) -> Iterator[EndLine]:
    """Ends with a status that is not 0, as somebody tells them."""
    for line in lines:
        code = _status(line.text)
        if code and not OVER.search(line.text):
            yield EndLine(line, code)


def judged_end(ends: Mapping[str, Sequence[tuple[int, str]]]) -> Judged | None:
    """Of what kind the first end is whose status tells it, among the last lines of logs that tell nothing else."""
    for lines in ends.values():
        for _, text in lines[-AT_THE_END:]:
            if OVER.search(text):
                continue
            code = _status(text)
            if judged := judged_status_of_windows(text) or (judged_status_of_end(code) if code else None):
                return judged
            if (ended := BY_SIGNAL.search(text)) is not None:
                return judged_signal(signal_named(SIGNALS[ended["words"]]) or 0)
    return None


def tells_an_end(text: str) -> bool:
    """It tells only that something has ended: that follows from what ended it."""
    return bool(_status(text))


def _status(text: str) -> int:
    match = ENDED.search(text)
    if match is None or OF_HTTP.search(text[: match.end()]):
        return 0
    code = int(match["code"])
    return code if -65 < code < 256 or judged_status_of_windows(match["code"]) else 0
