"""A child that looks once at the pace of a job, for `gpudoctor run`."""

import shlex
import signal
import sys
from pathlib import Path

import msgspec

from gpudoctor import active
from gpudoctor.envelope import encode
from gpudoctor.errors import Error
from gpudoctor.fleet.where import Where
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.slow.attend import PaceTask, PaceTold
from gpudoctor.slow.live import SlowWanted, slow
from gpudoctor.slow.report import SlowReport
from gpudoctor.slow.words import at_the_end, while_it_runs


def main(arguments: list[str]) -> None:
    """The child: a task as JSON in, what was found as JSON out."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    sys.stdout.buffer.write(msgspec.json.encode(looked(msgspec.json.decode(arguments[0], type=PaceTask))))


def looked(task: PaceTask) -> PaceTold:
    """Look once, and keep what was found where somebody is slow."""
    try:
        with active.ending():
            report = slow(Where(meet=task.meet), SlowWanted(pid=task.pid), lambda names: None)
    except Error:  # no job of torch's, or it has ended
        return PaceTold()
    return told(report, task)


def told(report: SlowReport, task: PaceTask) -> PaceTold:
    """The job in few lines."""
    if not report.paces:
        return PaceTold()
    pace = report.paces[0]
    more: tuple[str, ...] = ()
    if pace.slow and task.folder:
        place = Path(task.folder, task.name)
        place.touch(mode=0o600)
        place.write_bytes(encode(report))
        more = (f"more: gpudoctor slow --from {shlex.quote(str(place))} -v",)
    return PaceTold(
        is_job=bool(pace.groups or pace.memory),
        is_whole=len(pace.memory) >= pace.world_size and not report.lost,
        slow=(*while_it_runs(pace), *more) if pace.slow else (),
        ranks=tuple(sorted({rank for slow in pace.slow for rank in slow.ranks})),
        at_the_end=tuple(at_the_end(pace)),
    )
