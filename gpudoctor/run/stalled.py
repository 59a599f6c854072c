"""A child that asks `hang` about a job which has said nothing for long."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpudoctor import active
from gpudoctor.envelope import encode
from gpudoctor.errors import Error
from gpudoctor.fleet.where import Where
from gpudoctor.hang.live import JobsWanted, hang
from gpudoctor.hang.report import HangReport, JobReport
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run.stall import StallTask, StallTold
from gpudoctor.snapshot.evidence import to_json
from gpudoctor.sure import CERTAIN, PRIMARY


def main(arguments: list[str]) -> None:
    """The child: a task as JSON in, what was found as JSON out."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    sys.stdout.buffer.write(msgspec.json.encode(looked(msgspec.json.decode(arguments[0], type=StallTask))))


def looked(task: StallTask) -> StallTold:
    """Look once, and keep what was seen."""
    try:
        with active.ending():
            report, evidence = hang(Where(), JobsWanted(pid=task.pid), lambda names: None)
    except Error:  # no job of torch's, or it has ended
        return StallTold()
    if task.folder:
        for name, content in ((f"{task.name}.json", encode(report)), (f"{task.name}-evidence.json", to_json(evidence))):
            place = Path(task.folder, name)
            place.touch(mode=0o600)
            place.write_bytes(content)
    return told(report, task)


def told(report: HangReport, task: StallTask) -> StallTold:
    """The first job that hangs, in few lines."""
    job = next((job for job in report.jobs if job.state == "hung"), None)
    if job is None:
        return StallTold()
    more = f"more: gpudoctor hang --from {task.folder}/{task.name}-evidence.json" if task.folder else ""
    cause = job.causes[0].cause if job.causes and job.causes[0].confidence >= PRIMARY else ""
    return StallTold(hung=True, lines=(*_words(job), *((more,) if more else ())), cause=cause or "undecided")


def _words(job: JobReport) -> Iterator[str]:
    first = job.causes[0] if job.causes else None
    if first is None or first.confidence < PRIMARY:
        yield f"not decided: {job.undecided}" if job.undecided else "why is not decided"
        if first is not None:
            yield f"it may be ({first.confidence:.2f} of 1): {first.summary}  [{first.cause}]"
        return
    sure = "" if first.confidence >= CERTAIN else f" ({first.confidence:.2f} of 1)"
    yield f"cause: {first.summary}{sure}  [{first.cause}]"
    if first.where is not None:
        yield f"  at {first.where.file}:{first.where.line}"
    yield f"fix: {first.fix.text}"
