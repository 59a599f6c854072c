"""A child that asks `hang` about a job which has said nothing for long."""

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from gpudoctor import active
from gpudoctor.causes import CAUSES
from gpudoctor.envelope import encode
from gpudoctor.errors import Error
from gpudoctor.fleet.where import Where
from gpudoctor.hang.live import JobsWanted, hang
from gpudoctor.hang.report import HangReport, JobReport
from gpudoctor.knowledge.wording import counted, listed, ranges
from gpudoctor.read import process as processes
from gpudoctor.read.job import announced, armed, recorder_pipe
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run.arming import DUMPS
from gpudoctor.run.stall import StallTask, StallTold
from gpudoctor.snapshot.evidence import to_json
from gpudoctor.sure import CERTAIN, LIKELY, PRIMARY

DUMP_SECONDS = 5.0
MOST_DUMPS = 64


def main(arguments: list[str]) -> None:
    """The child: a task as JSON in, what was found as JSON out."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    sys.stdout.buffer.write(msgspec.json.encode(looked(msgspec.json.decode(arguments[0], type=StallTask))))


def looked(task: StallTask) -> StallTold:
    """Look once, and keep what was seen."""
    try:
        with active.ending():
            wanted = JobsWanted(pid=task.pid, quiet=task.quiet)
            report, evidence = hang(Where(meet=task.meet), wanted, lambda names: None)
    except Error:  # no job of torch's, or it has ended
        return StallTold()
    if task.folder:
        for name, content in ((f"{task.name}.json", encode(report)), (f"{task.name}-evidence.json", to_json(evidence))):
            place = Path(task.folder, name)
            place.touch(mode=0o600)
            place.write_bytes(content)
    stall_told = told(report, task)
    if stall_told.hung and task.on_stall == "dump":
        return structs.replace(stall_told, lines=(*stall_told.lines, *dumped(task)))
    return stall_told


def dumped(task: StallTask) -> Iterator[str]:
    """Have each armed rank here write what its flight recorder holds: as JSON, and NCCL's own dump, which torch's
    analyzer reads."""
    place = Path(task.folder, DUMPS) if task.folder else None
    written: list[int] = []
    asked = 0
    for process in processes.descendants(task.pid):
        how = armed.find(process.pid)
        descriptor = announced.announcement(process.pid)
        progress = announced.progress(process.pid, descriptor) if descriptor is not None else None
        rank = progress.rank if progress is not None else None
        if place is None or how is None or rank is None or len(written) >= MOST_DUMPS:
            continue
        content = armed.recorder_json(process.pid, how, DUMP_SECONDS)
        if content is not None:
            with contextlib.suppress(OSError):
                place.mkdir(mode=0o700, exist_ok=True)
                file = place / f"rank_{rank}.json"
                file.touch(mode=0o600)
                file.write_bytes(content)
                written.append(rank)
        with contextlib.suppress(recorder_pipe.NotAsked):
            recorder_pipe.ask(process.pid, recorder_pipe.name(rank, {}, how.pipe))
            asked += 1
    if not written and not asked:
        yield "no rank gave a dump of its flight recorder: none is armed, or it is off"
        return
    more = "; NCCL was asked for its own too" if asked else ""
    of = f"flight recorders of ranks {ranges(written)} are in {place}" if written else f"dumps go to {place}"
    yield f"{of}{more}"


def restart_words(job: JobReport) -> Iterator[str]:
    """Whether to start it again, and on which nodes: those of the culprits are left out where the fault is theirs."""
    first = job.causes[0] if job.causes else None
    if first is None or first.confidence < PRIMARY:
        yield "start it again: not decided"
        return
    restart = CAUSES[first.cause].restart
    hosts = sorted({row.host for row in job.ranks if row.rank in first.ranks and row.host})
    everywhere = {row.host for row in job.ranks} <= {*hosts}
    if restart != "elsewhere" or not hosts or everywhere:
        yield f"start it again: {restart}"
        return
    yield f"start it again: elsewhere, without {listed(hosts)} (SLURM: --exclude={','.join(hosts)})"


def told(report: HangReport, task: StallTask) -> StallTold:
    """The first job that hangs, in few lines; else what holds up one that is slow."""
    job = next((job for job in report.jobs if job.state == "hung"), None)
    if job is None:
        return next((_held(job) for job in report.jobs if job.state == "slow" and job.causes), StallTold())
    more = f"more: gpudoctor hang --from {task.folder}/{task.name}-evidence.json" if task.folder else ""
    cause = job.causes[0].cause if job.causes and job.causes[0].confidence >= PRIMARY else ""
    hint = tuple(restart_words(job)) if task.on_stall == "restart-hint" else ()
    lost = f"{counted(len(report.lost), 'node')} of {task.meet.nodes} did not come to this look" if task.meet else ""
    lines = (*_words(job), *((lost,) if report.lost and lost else ()), *hint, *((more,) if more else ()))
    return StallTold(
        hung=True, lines=lines, cause=cause or "undecided", confidence=job.causes[0].confidence if cause else 0.0
    )


def _held(job: JobReport) -> StallTold:
    """What holds up a job that may get on."""
    first = job.causes[0]
    own = [row for row in job.ranks if row.rank in first.ranks]
    if first.confidence < LIKELY or not own or not all(row.state.startswith("sleeps") for row in own):
        return StallTold(lines=(first.summary,))
    return StallTold(lines=tuple(_words(job)), is_idle=True)


def on_hosts(job: JobReport, ranks: Sequence[int], shown: int = 4) -> str:
    """ "rank 3 runs on n2"."""
    on: dict[str, list[int]] = {}
    for row in job.ranks:
        if row.rank in ranks and row.host:
            on.setdefault(row.host, []).append(row.rank)
    words = [f"{'rank' if len(found) == 1 else 'ranks'} {ranges(found)} on {host}" for host, found in on.items()]
    more = f", and {len(words) - shown} more nodes" if len(words) > shown else ""
    return f"{', '.join(words[:shown])}{more}"


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
    hosts = {row.host for row in job.ranks if row.host}
    if len(hosts) > 1 and first.ranks:
        yield f"  {on_hosts(job, first.ranks)}"
    yield f"fix: {first.fix.text}"
