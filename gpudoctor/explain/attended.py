"""What `gpudoctor run` has seen of the job's end, beside the log that it keeps: run.json. It counts as its own words.

A job that ended badly has not ended well, though a rank says "done" behind the end of another; a line that tells of the
same signal as the exit status tells of the end, and what stands behind it is others' words; and an exception that
nobody signed is that of the only rank that failed.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from gpudoctor import bounded
from gpudoctor.explain.course import course
from gpudoctor.explain.endings import signal_number, signal_told
from gpudoctor.explain.scan import Scan

RUN = "run.json"
MOST_BYTES = 1 << 20


class RankEnded(Struct, frozen=True, kw_only=True):
    """A process of the job that has not ended well."""

    rank: int | None = None
    status: int | None = None
    """Its exit status; below 0 the signal that ended it; None: not told."""
    attempt: int | None = None
    """Of torchrun's; None: nothing tells that there are several."""


class Attended(Struct, frozen=True, kw_only=True):
    """Of the whole job."""

    command: tuple[str, ...]
    started: float
    """Seconds since 1970. Without these two a file of that name is another program's."""
    status: int | None = None
    """None: it runs, or whoever attended it was killed before it had ended."""
    ended: tuple[RankEnded, ...] = ()

    @property
    def failed_alone(self) -> int | None:
        """The only rank that ended with a status of its own: signals come from launchers too, that end the others."""
        last = max((each.attempt or 0 for each in self.ended), default=0)
        failed = {
            each.rank
            for each in self.ended
            if (each.attempt or 0) == last
            if each.rank is not None and (each.status or 0) > 0
        }
        told = all(each.status is not None for each in self.ended)
        return failed.pop() if told and len(failed) == 1 else None


def attended(scans: Sequence[Scan]) -> dict[str, Attended]:
    """What was seen of jobs that ended badly, by the names of their logs. The scans show what they show beside that."""
    kept = [scan for scan in scans if Path(scan.file).is_file()]  # and no text that was handed over
    seen = {folder: _of(folder) for folder in {Path(scan.file).parent for scan in kept}}
    ends: dict[str, Attended] = {}
    for scan in kept:
        known = seen[Path(scan.file).parent]
        if known is not None and known.status:
            ends[scan.file] = known
            _count_in(scan, known.status)
    return ends


def _of(folder: Path) -> Attended | None:
    try:
        return msgspec.json.decode(bounded.contents(str(folder / RUN), MOST_BYTES), type=Attended)
    except (bounded.Refused, msgspec.DecodeError, RecursionError):
        return None


def _count_in(scan: Scan, status: int) -> None:
    number = signal_number(status)
    of_the_end = [event for event in scan.events if number and signal_told(event.values) == number]
    for event in of_the_end:
        event.of_the_end = True
    last = max((event.at.line for event in of_the_end), default=scan.lines)
    if scan.course.ended or last < scan.lines:
        end = scan.course.end
        scan.course = structs.replace(course([line for line in end if line[0] <= last], ended_badly=True), end=end)
