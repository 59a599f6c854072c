"""`gpudoctor hang`, done: which nodes, looking once or until it hangs, showing the answer."""

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gpudoctor import bounded, cost
from gpudoctor.cli.errors import UsageProblem
from gpudoctor.cli.fleets import Where, enough_descriptors, in_allocation, local_fleet, standing_fleet
from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.reach import reach
from gpudoctor.hang import ask
from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.evidence import Evidence, Unread, UnreadableEvidence, from_json
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.job import Members
from gpudoctor.hang.report import HangReport
from gpudoctor.hang.watch import spanned
from gpudoctor.render.progress import Progress

REACH_SECONDS = 20.0
BETWEEN_SECONDS = 2.5
"""From the first sample to the second: longer than most steps, and short enough to wait for."""
LOOK_SECONDS = 8.0
WITHOUT_A_JOB = 3
"""Looks of --watch without any process of the job, before it counts as ended."""


class Asked(NamedTuple):
    pid: int | None = None
    job: str | None = None
    dumps: str | None = None
    native: bool = False
    interval: float | None = None
    """Seconds between looks of --watch; None: look once."""


class Output(NamedTuple):
    json: bool = False
    paste: bool = False
    no_color: bool = False


def run(where: Where, asked: Asked, output: Output) -> int:
    """Look at the live job; the exit status. Raises `UsageProblem`."""
    if asked.dumps is not None and not Path(asked.dumps).is_dir():
        raise UsageProblem(f"--dumps {asked.dumps}: no such folder")
    started = time.monotonic()
    with hang_fleet(where, asked.job) as fleet, Progress(sys.stderr) as progress:
        arrive(fleet, progress)
        if asked.interval is None:
            evidence = look(fleet, asked, progress)
            report = conclude(evidence, seconds=round(time.monotonic() - started, 2))
        else:
            evidence, report = watch(fleet, asked, asked.interval, progress)
        fleet.dismiss()
    show(report, evidence, output)
    return exit_status(report)


def examine(where: Where, asked: Asked) -> Evidence:
    """The evidence of the live job, without a conclusion. Raises `UsageProblem`."""
    with hang_fleet(where, asked.job) as fleet, Progress(sys.stderr) as progress:
        arrive(fleet, progress)
        evidence = look(fleet, asked, progress)
        fleet.dismiss()
    return evidence


def run_file(path: str, job: str | None, output: Output) -> int:
    """`--from FILE`; the exit status. Raises `UsageProblem`."""
    cost.spend(bounded.EVIDENCE)
    try:
        evidence = from_json(bounded.contents(path, bounded.EVIDENCE.size))
    except UnreadableEvidence as error:
        raise UsageProblem(
            f"--from {path}: no evidence of a job ({error}); `gpudoctor capture --pid P` writes it"
        ) from None
    except bounded.Refused as error:
        raise UsageProblem(f"--from {path}: {error}") from None
    report = conclude(evidence)
    if job is not None:
        report = structs.replace(report, jobs=tuple(each for each in report.jobs if matches(each.id, job)))
    show(report, evidence, output)
    return exit_status(report)


def hang_fleet(where: Where, job: str | None) -> Fleet:
    """The nodes to look at: named, the Slurm job's, the allocation's, or this machine. Raises `UsageProblem`."""
    if where.is_named or where.nodes is not None:
        return standing_fleet(where, os.environ)
    if job is not None and job.isascii() and job.isdecimal() and os.environ.get("SLURM_JOB_ID") != job:
        from gpudoctor.fleet.slurm import NoSlurm, SlurmFleet, job_environment

        enough_descriptors("srun")
        try:
            return SlurmFleet.inside(environment=job_environment(job, os.environ))
        except NoSlurm as error:
            raise UsageProblem(f"--job {job}: {error}") from None
    if in_allocation(os.environ):
        return standing_fleet(where, os.environ)
    if where.exclude:
        raise UsageProblem("--exclude leaves out nodes of --hosts, --hostfile or a Slurm allocation; none is given")
    return local_fleet()


def arrive(fleet: Fleet, progress: Progress) -> None:
    """Wait for the agents. Raises `UsageProblem` when none answers."""
    found = reach(
        fleet,
        timeout=REACH_SECONDS,
        on_change=lambda found: progress.waiting([fleet.name(n) for n in range(len(fleet.nodes)) if n not in found]),
    )
    if not fleet.present:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(ask.lost_nodes(fleet).items())[:4])
        raise UsageProblem(f"none of {len(found)} nodes can be asked ({reasons})")


def look(fleet: Fleet, asked: Asked, progress: Progress) -> Evidence:
    """Find the job and look at it. Raises `UsageProblem` when there is none."""
    found = ask.processes(fleet, waiting=progress.waiting)
    members = wanted(found, asked)
    if not members and asked.dumps is None:
        raise UsageProblem(nothing_found(asked, fleet, found.unread))
    dumps = str(Path(asked.dumps).absolute()) if asked.dumps is not None else ""
    evidence = look_at(fleet, members, asked, progress, dumps=dumps)
    return structs.replace(evidence, unread=(*found.unread, *evidence.unread))


def look_at(fleet: Fleet, members: Sequence[Members], asked: Asked, progress: Progress, *, dumps: str = "") -> Evidence:
    return ask.look(
        fleet,
        members,
        seconds=BETWEEN_SECONDS,
        native=asked.native,
        dumps=dumps,
        timeout=LOOK_SECONDS,
        waiting=progress.waiting,
    )


def wanted(processes: ask.Processes, asked: Asked) -> tuple[Members, ...]:
    """The jobs that were asked for, of all that run on these nodes."""
    found = find_jobs(processes.nodes)
    if asked.pid is not None:
        found = tuple(each for each in found if any(member.process.pid == asked.pid for member in each.members))
    if asked.job is not None:
        found = tuple(each for each in found if asked.job == each.slurm_job or matches(each.id, asked.job))
    return found


def matches(id: str, wanted: str) -> bool:
    """Whether a job's id is meant: as shown, or one of its words (a run id, a Slurm job, an address)."""
    return wanted == id or wanted in re.split(r"[\s,]+", id)


def nothing_found(asked: Asked, fleet: Fleet, unread: Sequence[Unread]) -> str:
    nodes = "on this machine" if fleet.how == "local" else f"on {len(fleet.present)} of {len(fleet.nodes)} nodes"
    blind = f"; not read: {unread[0].what} ({unread[0].reason})" if unread else ""
    if asked.pid is not None:
        return f"--pid {asked.pid}: it is no process of a distributed job that can be seen {nodes}{blind}"
    if asked.job is not None:
        return f"--job {asked.job}: no such job {nodes}; without --job all that run there are shown{blind}"
    return (
        f"no distributed job is seen {nodes}: no process has RANK and WORLD_SIZE, and no torchrun, srun or mpirun "
        f"runs{blind}; with --hosts or --job other nodes are looked at, with --dumps what a job has left"
    )


def watch(fleet: Fleet, asked: Asked, interval: float, progress: Progress) -> tuple[Evidence, HangReport]:
    """Look again and again until a job stands still from one look to the next, or all have ended."""
    before: Evidence | None = None
    seen, without = False, 0
    while True:
        started = time.monotonic()
        members = wanted(ask.processes(fleet, waiting=progress.waiting), asked)
        if members:
            seen, without = True, 0
            evidence = look_at(fleet, members, asked, progress)
            report = conclude(spanned(before, evidence) if before is not None else evidence)
            if before is not None and any(job.state == "hung" for job in report.jobs):
                return evidence, report
            before = evidence
        else:
            without += 1
            if seen and without >= WITHOUT_A_JOB:
                assert before is not None
                return before, HangReport(hosts=tuple(node.name for node in fleet.nodes))
        while (left := started + interval - time.monotonic()) > 0:
            progress.waiting(["the job to stand still" if members else "a job"])
            fleet.keep_alive()
            time.sleep(min(0.5, left))


def show(report: HangReport, evidence: Evidence, output: Output) -> None:
    if output.json:
        from gpudoctor.hang.report import to_json

        print(to_json(report).decode())
    elif output.paste:
        from gpudoctor.render.paste import hang_markdown

        print(hang_markdown(report, evidence))
    else:
        from gpudoctor.render.hang import show_hang
        from gpudoctor.render.prose import console

        show_hang(report, console(no_color=output.no_color))


def exit_status(report: HangReport) -> int:
    """1 when a job hangs or something is wrong with it, 2 when there was none to look at."""
    if not report.jobs:
        return 2 if report.lost or report.unread else 0
    return 1 if any(job.causes or job.state == "hung" for job in report.jobs) else 0
