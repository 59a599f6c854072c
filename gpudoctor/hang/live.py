"""Looks at live jobs: which nodes, once or until one hangs. All may raise `BadInput`, `CannotTell` and `Unreached`."""

import contextlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gpudoctor import __version__
from gpudoctor.active import Waiting
from gpudoctor.causes import CAUSES
from gpudoctor.errors import BadInput, CannotTell, Unreached
from gpudoctor.fleet.descriptors import ensure
from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.reach import REACH_SECONDS, reach, unheard
from gpudoctor.fleet.slurm import NoSlurm, SlurmFleet, job_environment
from gpudoctor.fleet.where import Where, in_allocation, local_fleet, met_fleet, standing_fleet
from gpudoctor.hang import ask, choose
from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.job import Members
from gpudoctor.hang.report import HangReport, JobReport, is_fault
from gpudoctor.hang.users import words
from gpudoctor.hang.watch import spanned
from gpudoctor.read import process as processes
from gpudoctor.read.job.ray_driver import TITLE, started_by_driver
from gpudoctor.read.process import ancestors
from gpudoctor.read.users import is_known
from gpudoctor.snapshot.evidence import Evidence

BETWEEN_SECONDS = 2.5
"""From the first sample to the second: longer than most steps, and short enough to wait for."""
LOOK_SECONDS = 8.0
MORE_LOOKS = 3
PATIENCE_SECONDS = 10.0
"""For how long it is looked again where a wait of one rank alone speaks for a hang."""
WITHOUT_A_JOB = 3
"""Looks of --watch without any process of the job, before it counts as ended."""


class JobsWanted(NamedTuple):
    pid: int | None = None
    job: str | None = None
    user: str | None = None
    """Names or numbers of one user, comma between them."""
    dumps: str | None = None
    native: bool = False
    interval: float | None = None
    """Seconds between looks of --watch; None: look once."""
    quiet: float | None = None
    """As `Evidence.quiet_seconds`."""


def hang(where: Where, asked: JobsWanted, waiting: Waiting) -> tuple[HangReport, Evidence]:
    """Look at the jobs and conclude."""
    if asked.dumps is not None and not Path(asked.dumps).is_dir():
        raise BadInput(f"--dumps {asked.dumps}: no such folder")
    started = time.monotonic()
    with hang_fleet(where, asked.job) as fleet:
        arrive(fleet, waiting)
        if asked.interval is None:
            looks, report = patiently(fleet, asked, waiting)
            report = structs.replace(report, seconds=round(time.monotonic() - started, 2))
        else:
            looks, report = watch(fleet, asked, asked.interval, waiting)
        fleet.dismiss()
    return report, looks.evidence


def examine(where: Where, asked: JobsWanted, waiting: Waiting) -> Evidence:
    """The evidence of the live jobs of one user, without a conclusion."""
    with hang_fleet(where, asked.job) as fleet:
        arrive(fleet, waiting)
        looks = look(fleet, asked, waiting)
        fleet.dismiss()
    if len(looks.found) > 1:
        users = ", ".join(words(user) for user in looks.users)
        raise BadInput(f"jobs of several users run here ({users}); --pid names a process of the one to capture")
    return looks.evidence


def recorded(evidence: Evidence, job: str | None = None) -> HangReport:
    """What is concluded of evidence that was captured; of the job of that id, where one is named."""
    report = conclude(evidence)
    if job is None:
        return report
    return structs.replace(report, jobs=tuple(job_report for job_report in report.jobs if matches(job_report.id, job)))


def hang_fleet(where: Where, job: str | None) -> Fleet:
    """The nodes to look at: named, the Slurm job's, the allocation's, or this machine."""
    if where.meet is not None:
        return met_fleet(where)
    if where.is_named or where.nodes is not None:
        return standing_fleet(where, os.environ)
    if job is not None and job.isascii() and job.isdecimal() and os.environ.get("SLURM_JOB_ID") != job:
        ensure("srun")
        try:
            return SlurmFleet.inside(environment=job_environment(job, os.environ))
        except NoSlurm as error:
            raise BadInput(f"--job {job}: {error}") from None
    if in_allocation(os.environ):
        return standing_fleet(where, os.environ)
    if where.exclude:
        raise BadInput("--exclude leaves out nodes of --hosts, --hostfile or a Slurm allocation; none is given")
    return local_fleet()


def arrive(fleet: Fleet, waiting: Waiting) -> None:
    """Wait for the agents. Raises `Unreached` when none answers, `CannotTell` when this machine's does not."""
    answers = reach(fleet, timeout=REACH_SECONDS, on_change=unheard(fleet, waiting), only_asks=True)
    if not fleet.present:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(ask.lost_nodes(fleet).items())[:4])
        problem = CannotTell if fleet.how == "local" else Unreached
        raise problem(f"none of {len(answers)} nodes can be asked ({reasons})")


class Looks(NamedTuple):
    """One look at the jobs that were chosen: at each user's by itself."""

    found: tuple[Evidence, ...]
    users: tuple[str, ...]
    """Whose each is."""
    chosen: choose.ChosenJobs = choose.ChosenJobs((), ())

    @property
    def evidence(self) -> Evidence:
        """All of it, where what is wanted is what was seen."""
        first, *more = self.found
        return structs.replace(first, nodes=(*first.nodes, *(node for evidence in more for node in evidence.nodes)))

    def report(self, seconds: float = 0.0) -> HangReport:
        """What is concluded of each user's jobs, in one report: the faults first."""
        every = [conclude(evidence) for evidence in self.found]
        jobs = sorted((job for report in every for job in report.jobs), key=lambda job: not is_fault(job))
        looked = [job for jobs in self.chosen.looks for job in jobs]
        return structs.replace(
            every[0],
            hosts=tuple(dict.fromkeys(host for report in every for host in report.hosts)),
            jobs=tuple(jobs),
            others=choose.others(self.chosen.others, looked),
            lost={name: why for report in every for name, why in report.lost.items()},
            unread=tuple(dict.fromkeys(unread for report in every for unread in report.unread)),
            seconds=seconds,
        )


def look(fleet: Fleet, asked: JobsWanted, waiting: Waiting) -> Looks:
    """Find the jobs and look at them. Raises `CannotTell` when there is none, `BadInput` for a named one."""
    found = ask.processes(fleet, waiting=waiting, alone=asked.pid)
    chosen = wanted(found, asked, here=fleet.how == "local")
    if not chosen.looks and asked.dumps is None:
        raise nothing_found(asked, fleet, found)
    dumps = str(Path(asked.dumps).absolute()) if asked.dumps is not None else ""
    looks = look_at(fleet, chosen, asked, waiting, dumps=dumps)
    first, *more = looks.found
    unread = tuple(unread for unread in found.unread if unread.user in ("", *looks.users))
    return looks._replace(found=(structs.replace(first, unread=(*unread, *first.unread)), *more))


def patiently(fleet: Fleet, asked: JobsWanted, waiting: Waiting) -> tuple[Looks, HangReport]:
    """Look once; and again where a job is called hung by a wait alone that others can rightly wait for: what comes back
    from a slow server, a retry or a child within ten seconds is no hang."""
    looks = look(fleet, asked, waiting)
    report = looks.report()
    began = time.monotonic()
    for _ in range(MORE_LOOKS):
        if (
            not looks.users
            or not any(may_pass(job) for job in report.jobs)
            or time.monotonic() - began > PATIENCE_SECONDS
        ):
            break
        now = look_at(fleet, looks.chosen, asked, waiting)
        looks = _spanned(looks, now)._replace(chosen=looks.chosen)
        report = looks.report()
    return looks, report


def may_pass(job: JobReport) -> bool:
    """Whether a job counts as hung by a wait that may end by itself."""
    first = job.causes[0] if job.causes else None
    return job.state == "hung" and first is not None and CAUSES[first.cause].may_pass


def look_at(fleet: Fleet, chosen: choose.ChosenJobs, asked: JobsWanted, waiting: Waiting, *, dumps: str = "") -> Looks:
    """Without a job at the dumps alone."""
    found = [
        ask.look(
            fleet,
            members,
            seconds=BETWEEN_SECONDS,
            native=asked.native,
            dumps=dumps if number == 0 else "",
            timeout=LOOK_SECONDS,
            waiting=waiting,
        )
        for number, members in enumerate(chosen.looks or ((),))
    ]
    found = [structs.replace(evidence, quiet_seconds=asked.quiet) for evidence in found]
    return Looks(tuple(found), tuple(members[0].user for members in chosen.looks), chosen)


def wanted(processes: ask.Processes, asked: JobsWanted, *, here: bool = False) -> choose.ChosenJobs:
    """The jobs that were asked for, of all that run on these nodes. `here`: these are this machine alone."""
    same = asked.user.split(",") if asked.user is not None and "," in asked.user else ()
    every = find_jobs(processes.nodes, same)
    found = every
    if asked.user is not None:
        user = asked.user
        found = tuple(members for members in found if choose.fits_user(members, user))
    if asked.pid is not None:
        found = _of_process(found, asked.pid, here=here)
    if asked.job is not None:
        found = tuple(members for members in found if asked.job == members.slurm_job or matches(members.id, asked.job))
    named = asked.user is not None or asked.pid is not None
    chosen = choose.choose(found, named=named, first=choose.who_asks(os.environ))
    looked = {id(job) for jobs in chosen.looks for job in jobs}
    return chosen._replace(others=tuple(job for job in every if id(job) not in looked))


def _of_process(jobs: Sequence[Members], pid: int, *, here: bool) -> tuple[Members, ...]:
    """Those that a process belongs to; else those below it, of a batch script, or of a driver whose workers another
    program has started (Ray's raylet): a driver is no job by itself."""
    own = tuple(job for job in jobs if any(member.process.pid == pid for member in job.members))
    if not here or (own and not all(member.process.alone for job in own for member in job.members)):
        return own
    below = tuple(job for job in jobs if any(pid in ancestors(member.process.pid) for member in job.members))
    return below or _of_driver(jobs, pid) or own


def _of_driver(jobs: Sequence[Members], pid: int) -> tuple[Members, ...]:
    """The job of Ray's workers that began since their driver did; () where there are several."""
    began = started_by_driver(pid)
    if began is None:
        return ()
    since = tuple(
        job
        for job in jobs
        if any("".join(member.process.command[:1]).startswith(TITLE) for member in job.members)
        and all(member.process.started >= began for member in job.members if member.role == "rank")
    )
    return since if len(since) == 1 else ()


def matches(id: str, wanted: str) -> bool:
    """Whether a job's id is meant: as shown, or one of its words (a run id, a Slurm job, an address)."""
    return wanted == id or wanted in re.split(r"[\s,]+", id)


def nothing_found(asked: JobsWanted, fleet: Fleet, found: ask.Processes) -> BadInput | CannotTell | Unreached:
    """That there is no such job; that this is not known, where something could not be looked at."""
    nodes = "on this machine" if fleet.how == "local" else f"on {len(fleet.present)} of {len(fleet.nodes)} nodes"
    if found.lost:
        name, reason = next(iter(found.lost.items()))
        problem = CannotTell if fleet.how == "local" else Unreached
        return problem(f"could not look for jobs {nodes}: {name}: {reason}")
    blind = f"; not read: {found.unread[0].what} ({found.unread[0].reason})" if found.unread else ""
    if asked.pid is not None:
        if fleet.how == "local" and not blind:
            with contextlib.suppress(OSError):
                if processes.look(asked.pid) is None:
                    return BadInput(f"--pid {asked.pid}: there is no such process on this machine")
        alone = ", and no Python that could be looked at by itself" if fleet.how == "local" else ""
        told = f"it is no process of a distributed job that can be seen {nodes}{alone}"
        return BadInput(f"--pid {asked.pid}: {told}{blind}")
    if asked.job is not None:
        return BadInput(f"--job {asked.job}: no such job {nodes}; without --job all that run there are shown{blind}")
    if asked.user is not None:
        if fleet.how == "local" and not blind and not any(map(is_known, asked.user.split(","))):
            return BadInput(f"--user {asked.user}: this machine knows no such user")
        return CannotTell(f"--user {asked.user}: no distributed job of that user is seen {nodes}{blind}")
    return CannotTell(
        f"no distributed job is seen {nodes}: no process has RANK and WORLD_SIZE, and no torchrun, srun or mpirun "
        f"runs{blind}; with --hosts or --job other nodes are looked at, with --dumps what a job has left"
    )


def watch(fleet: Fleet, asked: JobsWanted, interval: float, waiting: Waiting) -> tuple[Looks, HangReport]:
    """Look again and again until a job stands still from one look to the next, or all have ended."""
    before: Looks | None = None
    without = 0
    while True:
        started = time.monotonic()
        found = ask.processes(fleet, waiting=waiting, alone=asked.pid)
        chosen = wanted(found, asked, here=fleet.how == "local")
        if chosen.looks:
            without = 0
            now = look_at(fleet, chosen, asked, waiting)
            report = _spanned(before, now).report() if before is not None else now.report()
            if before is not None and any(job.state == "hung" for job in report.jobs):
                return now, report
            before = now
        elif not found.lost:  # a node that gave no answer has not said that the job is gone
            without += 1
            if before is not None and without >= WITHOUT_A_JOB:
                hosts = tuple(node.name for node in fleet.nodes)
                return before, HangReport(gpudoctor=__version__, hosts=hosts, ended=True)
        elif not fleet.present:
            problem = CannotTell if fleet.how == "local" else Unreached
            raise problem(f"could not look for jobs: {'; '.join(list(found.lost.values())[:4])}")
        while (left := started + interval - time.monotonic()) > 0:
            waiting(["the job to stand still" if chosen.looks else "a job"])
            fleet.keep_alive()
            time.sleep(min(0.5, left))


def _spanned(before: Looks, now: Looks) -> Looks:
    """Each user's look with the last one of that user."""
    earlier = dict(zip(before.users, before.found, strict=False))
    found = (
        spanned(earlier[user], evidence) if user in earlier else evidence
        for user, evidence in zip(now.users, now.found, strict=True)
    )
    return now._replace(found=tuple(found))
