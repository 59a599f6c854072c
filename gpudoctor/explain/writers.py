"""Who wrote a line and when: what launchers, loggers and the kernel put in front of it.

Forms: "[rank3]:" (torch's own excepthook), what launchers put before a line (their own files say it: "[default3]:",
"3: "), "node1: " (pdsh, DeepSpeed), "node1:pid:tid [gpu] NCCL", and the time stamps of Python's logging, glog, syslog,
dmesg, kubectl and Loki.
"""

import datetime
import re
from functools import cache
from typing import NamedTuple

from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re


class Writer(NamedTuple):
    rank: int | None = None
    local_rank: int | None = None
    """Where only this is told: torchrun's prefix "[default3]:"."""
    host: str = ""
    pid: int | None = None
    time: float | None = None
    """Seconds since the epoch; a time without a zone is taken as UTC."""
    length: int = 0
    """Characters of the line that are such prefixes."""


MOST_PREFIXES = 8
MOST_CHARACTERS = 400

RANK = lazy_re(r"\[?(?:[Rr]ank|RANK)[ _:=]{0,2}(?P<rank>\d{1,6})(?:/\d{1,6})?(?:\]:?|:)\s?")
COMPOSE = lazy_re(r"(?P<host>[A-Za-z][\w.-]{0,62})\s{1,20}\| ")
NCCL = lazy_re(r"(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?P<pid>\d{1,8}):\d{1,8} (?=\[\d{1,3}\]|NCCL)")
HOST = lazy_re(r"(?P<host>[A-Za-z][\w-]{0,62}(?:\.[\w.-]{1,190})?): (?=\S)")
ISO = lazy_re(
    r"\[?(?P<date>\d{4}-\d\d-\d\d)[T _](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?\]?[ :,-]{0,3}"
)
GLOG = lazy_re(
    r"(?:\[rank(?P<rank>\d{1,6})\]:)?\[?(?P<level>[EWIFCV])(?P<month>[01]\d)(?P<day>[0-3]\d) "
    r"(?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?\s{1,8}(?:\d{1,10}\s)?[\w./\\-]{1,200}:\d{1,6}\]\s?"
)
SYSLOG = lazy_re(
    r"(?:<\d{1,3}>)?(?P<month>[A-Z][a-z]{2})\s{1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))? "
    r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,252}) (?:python[\d.]{0,6}\[\d{1,8}\]: |(?=[\w./()-]{1,80}(?:\[\d{1,8}\])?:)))?"
)
"""With the name that the journal gives Python: its lines of one traceback may be of several seconds. The number is of
who opened the stream, which ranks inherit."""
RAY = lazy_re(r"\([^()\n]{1,120} pid=(?P<pid>\d{1,8})(?:, ip=(?P<host>[\w.:-]{2,60}))?\) ")
"""Of an actor or a task (ray/_private/worker.py, print_worker_logs)."""
CTIME = lazy_re(
    r"\[?[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2})\s{1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?:\.(?P<part>\d{1,9}))? (?P<year>\d{4})\]?\s?"
)
KERNEL = lazy_re(r"(?:<\d{1,3}>)?\[\s{0,8}(?P<uptime>\d{1,9}\.\d{6})\]\s?|kernel: ")
INSIDE = lazy_re(r"(?<![\w.])\[?(?:[Rr]ank|RANK|GLOBAL_RANK)[ :=]{0,2}(?P<rank>\d{1,6})\b")
"""A rank in the line's own words: "[PG 0 Rank 3]", "Rank 3: ..."."""
WRAPPED = lazy_re(r'^\{"log":"')
WRAPPED_TIME = lazy_re(r'"time":"(?P<date>\d{4}-\d\d-\d\d)T(?P<clock>\d\d:\d\d:\d\d)')

MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
NO_HOSTS = frozenset(
    """
    error warning info debug fatal critical note hint traceback exception caused slurmstepd kernel usage file line by
    during cause fix python raise return
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Words that stand before a colon at the start of a line, and name no machine, as launchers' names do not."""
ERROR = lazy_re(r"(?:Error|Exception|Warning|Interrupt|Timeout|Exit)$")
FILE_RANK = lazy_re(r"(?:^|[^a-z])(?:rank|task|worker|log)[._-]?(\d{1,6})(?:[^0-9]|$)", re.IGNORECASE)


@cache
def forms() -> dict[str, tuple[re.Pattern[str], ...]]:
    """Prefixes by what a line begins with: "[", a digit, a letter, or anything else."""
    own = [re.compile(line_prefix) for launcher in registry.every() for line_prefix in launcher.line_prefixes]
    bracket = tuple(pattern for pattern in own if pattern.pattern.startswith("\\["))
    plain = tuple(pattern for pattern in own if pattern not in bracket)
    return {
        "[": (ISO, GLOG, CTIME, KERNEL, RANK, *bracket),
        "digit": (ISO, *plain, NCCL),
        "letter": (GLOG, CTIME, SYSLOG, KERNEL, RANK, NCCL, COMPOSE),
        "": (SYSLOG, KERNEL, RAY, *plain),
    }


def writer(line: str, year: int | None = None) -> Writer:
    """Who wrote a line. `year` is taken for time stamps without one; None: they tell no time. Never raises."""
    head = line[:MOST_CHARACTERS]
    rank = local = pid = time = None
    host = ""
    at = 0
    if WRAPPED.match(head):  # docker's json-file
        at = len('{"log":"')
        if match := WRAPPED_TIME.search(line, max(0, len(line) - 200)):
            time = _seconds(match["date"], match["clock"], None, None)
    for _ in range(MOST_PREFIXES):
        first = head[at : at + 1]
        match = None
        kind = first if first == "[" else "digit" if first.isdigit() else "letter" if first.isalpha() else ""
        for form in forms()[kind]:
            match = form.match(head, at)
            if match is not None:
                break
        if match is None or match.end() == at:
            break
        at = match.end()
        values = match.groupdict()
        if values.get("rank"):
            rank = int(values["rank"])
        if values.get("local"):
            if values["role"].lower() == "rank":
                rank = int(values["local"])
            else:
                local = int(values["local"])
        host = values.get("host") or host
        if values.get("pid"):
            pid = int(values["pid"])
        if values.get("clock"):
            time = _time(values, year) or time
    match = HOST.match(head, at)
    named = match["host"].lower() if match and not host else ""
    if (
        match
        and named
        and named not in NO_HOSTS
        and named not in registry.programs()
        and not ERROR.search(match["host"])
    ):
        rest = writer(head[match.end() :]) if match.end() < len(head) and at < 200 else Writer()
        if rest.length or any(letter.isdigit() for letter in match["host"]):
            host = match["host"]
            at = match.end() + rest.length
            rank = rank if rank is not None else rest.rank
            local = local if local is not None else rest.local_rank
            pid, time = pid or rest.pid, time or rest.time
    return Writer(rank, local, host, pid, time, at)


def unprefixed(line: str) -> str:
    """The line without such prefixes."""
    return line[writer(line).length :]


def _time(values: dict[str, str | None], year: int | None) -> float | None:
    date = values.get("date")
    if not date:
        month = values["month"] or ""
        number = MONTHS.get(month, 0) or (int(month) if month.isdigit() else 0)
        known = values.get("year") or year
        if not known or not number:
            return None
        date = f"{int(known):04}-{number:02}-{int(values['day'] or 0):02}"
    return _seconds(date, values["clock"] or "", values.get("part"), values.get("zone"))


def _seconds(date: str, clock: str, part: str | None, zone: str | None) -> float | None:
    try:
        moment = datetime.datetime.fromisoformat(f"{date}T{clock}").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
    seconds = moment.timestamp() + (float(f"0.{part}") if part else 0.0)
    if zone and zone[0] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        seconds -= (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    return seconds


def rank_in_words(line: str, start: int = 0) -> int | None:
    """The rank that a line speaks of itself ("[PG 0 Rank 3]"), where it speaks of one only."""
    ranks = {int(match["rank"]) for match in INSIDE.finditer(line[start : start + 2 * MOST_CHARACTERS])}
    return ranks.pop() if len(ranks) == 1 else None


def file_writer(path: str) -> Writer:
    """What a file's name tells: torchrun's attempt_0/3/stderr.log, rank_3.log, task-3.out."""
    for launcher in registry.every():
        if launcher.log_file and (match := re.search(launcher.log_file, path)):
            return Writer(local_rank=int(match["local"]))
    name = path.replace("\\", "/").rpartition("/")[2]
    if match := FILE_RANK.search(name):
        return Writer(rank=int(match[1]))
    return Writer()
