"""From evidence to the report: asks every rule, orders what they found, and says when nothing decides.

Blame goes, among causes that are shown well enough, to who is dead, stopped, lost or missing; then to what keeps a job
from starting, and its network; then to ranks that disagree about collectives; then to a rank that is elsewhere; and
last to what all have in common. A job that gets on has no hang, whatever a rule says (`progress`).
"""

from collections.abc import Sequence

from gpudoctor import __version__
from gpudoctor.cause import HANGS_BY
from gpudoctor.causes import CAUSES
from gpudoctor.crowded import MOST
from gpudoctor.hang.all_rules import RULES
from gpudoctor.hang.assemble import assemble
from gpudoctor.hang.causes import HangRule
from gpudoctor.hang.courses import words as collective_words
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.objects import with_objects
from gpudoctor.hang.parted import where_they_part
from gpudoctor.hang.peer_nodes import line_for_all_nodes
from gpudoctor.hang.progress import ENDED, STARTING, JobProgress, awaits_work, parties, progress_of, serves
from gpudoctor.hang.recorders import Agreement
from gpudoctor.hang.report import HangCause, HangReport, JobReport, State
from gpudoctor.hang.rows import rows, stacks
from gpudoctor.hang.unalike import with_values
from gpudoctor.hang.users import words
from gpudoctor.hang.words import at, place_words, ranks_of, standing_words, verb, waiting_words
from gpudoctor.knowledge.places import MPI, main_thread
from gpudoctor.snapshot.evidence import Evidence, Unread
from gpudoctor.sure import CERTAIN, PRIMARY, SHOWN

MOST_CAUSES = 12
YOUNG_SECONDS = 30.0
"""A job that waits for its ranks for less is starting: our rule of thumb; imports of torch alone may take 20 s on a
cold file system."""


def conclude(evidence: Evidence, *, seconds: float = 0.0) -> HangReport:
    """The report on everything that was read. Never raises."""
    unread = [
        *evidence.unread,
        *(
            Unread(
                f"{unread.what} on {node.name}" if node.name and len(evidence.nodes) > 1 else unread.what, unread.reason
            )
            for node in evidence.nodes
            for unread in node.unread
        ),
    ]
    jobs: tuple[HangJob, ...] = ()
    try:
        jobs = assemble(evidence)
    except Exception as error:  # evidence from a file may be anything
        unread.append(Unread("the jobs of this evidence", _crash(error)))
    reports = tuple(conclude_job(job, unread) for job in jobs)
    return HangReport(
        gpudoctor=__version__,
        hosts=tuple(dict.fromkeys(node.host for node in evidence.nodes)),
        jobs=reports,
        lost=evidence.lost,
        unread=tuple(unread),
        seconds=seconds,
    )


def conclude_job(job: HangJob, unread: list[Unread] | None = None) -> JobReport:
    """The report on one job. A rule that fails is left out, and said in `unread`."""
    missed: list[Unread] = unread if unread is not None else []
    progress = progress_of(job)
    said = ordered([cause for rule in RULES for cause in _asked(rule, job, missed)], progress)
    causes = with_values(job, with_objects(job, said))
    state = state_of(job, progress, causes)
    return JobReport(
        id=job.id,
        user=words(job.user) if job.user else "",
        world_size=job.world_size,
        state=state,
        causes=causes,
        undecided=_undecided(job, progress, state, causes),
        ranks=rows(job),
        stacks=stacks(job),
        groups=job.agreement.courses if job.agreement is not None else (),
        only_recorder=_only_recorder(job, state),
    )


def _asked(rule: HangRule, job: HangJob, unread: list[Unread]) -> list[HangCause]:
    causes: list[HangCause] = []
    try:
        causes.extend(rule(job))
    except Exception as error:  # one rule must not take the others' answers along
        unread.append(Unread(f"rule {rule.__module__.rpartition('.')[2]}.{rule.__name__}", _crash(error)))
    return causes


def _crash(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace is not None else ""
    return f"gpudoctor failed with {type(error).__name__}: {str(error)[:120]}{line}; this is a defect worth reporting"


def ordered(said: Sequence[HangCause], progress: JobProgress) -> tuple[HangCause, ...]:
    """Best first, each cause and culprits once, without what does not hold for a job that gets on, and without what
    follows from a better one."""
    if progress.verdict == "moves":
        said = [cause for cause in said if _may_be_said(cause, progress)]
    best: dict[tuple[str, tuple[int, ...]], HangCause] = {}
    for cause in said:
        key = cause.cause, cause.ranks
        if key not in best or best[key].confidence < cause.confidence:
            best[key] = cause
    explained = {id for cause in best.values() for id in CAUSES[cause.cause].explains}
    causes = sorted(best.values(), key=lambda cause: _order(cause, cause.cause in explained))
    return tuple(_without_consequences(causes)[:MOST_CAUSES])


def _may_be_said(cause: HangCause, progress: JobProgress) -> bool:
    """Whether it holds beside ranks that move."""
    when = CAUSES[cause.cause].while_running
    return when == "always" or (when == "while nobody waits" and not progress.gets_on)


def _order(cause: HangCause, is_explained: bool) -> tuple[int, float, bool, str]:
    blame = _blame(cause) if cause.confidence >= SHOWN else len(HANGS_BY)
    # Whether ranks disagree or one is elsewhere, the surer one is told first, whatever its family.
    family = min(blame, HANGS_BY.index("disagreement")) if blame == HANGS_BY.index("elsewhere") else blame
    return family, -cause.confidence, is_explained, f"{blame} {cause.cause}"


def _blame(cause: HangCause) -> int:
    return HANGS_BY.index(CAUSES[cause.cause].hangs_by)


def _without_consequences(causes: list[HangCause]) -> list[HangCause]:
    """With a primary cause that is shown, what is left are others that are shown as well or nearly, for other ranks
    or in its own order of blame; a rank that waits for a stopped one is no second cause."""
    if not causes or causes[0].confidence < SHOWN:
        return causes
    first = causes[0]
    kept = [first]
    for cause in causes[1:]:
        if _blame(first) == 0 and _blame(cause) != 0:
            continue
        if cause.cause in CAUSES[first.cause].explains:
            continue
        if first.confidence >= CERTAIN and (cause.confidence < PRIMARY or cause.ranks == first.ranks):
            continue
        kept.append(cause)
    return kept


def state_of(job: HangJob, progress: JobProgress, causes: Sequence[HangCause]) -> State:
    """hung, slow, running, starting or ended, in words of `report.State`."""
    shown = bool(causes) and causes[0].confidence >= PRIMARY
    alive = len(progress.waiting) + len(progress.away) + len(progress.stopped)
    if job.ranks and not alive:
        return "ended"
    if not job.ranks:
        if shown:
            return "hung"
        if job.launchers:
            return "starting"
        if job.agreement is not None and job.agreement.first is not None and not job.agreement.waits.in_flight:
            return "hung"
        return "ended" if _is_over(job) else "running"
    if progress.verdict == "moves":
        # what moves cannot help where a rank is missing, and nobody that waits for others gets on
        gone = shown and CAUSES[causes[0].cause].while_running == "while nobody waits"
        return "hung" if gone else "slow" if causes else "running"
    if progress.verdict == "held":
        return "hung" if shown and not CAUSES[causes[0].cause].slows else "slow"
    if progress.verdict == "starting" and not shown:
        return "starting" if _age(job) < YOUNG_SECONDS or job.missing else "hung"
    if progress.verdict == "stuck" or shown:
        asleep = not progress.waiting and all(rank.place.kind == "sleep" or awaits_work(rank) for rank in progress.away)
        if (asleep or serves(progress)) and not shown:
            return "slow"
        return "hung"
    return "running"


def _is_over(job: HangJob) -> bool:
    """Whether processes were seen, and all of them have ended."""
    seen = [process for node in job.nodes for process in node.processes]
    states = [process.samples[-1].state if process.samples else process.process.state for process in seen]
    return bool(states) and all(state in ENDED for state in states)


def _age(job: HangJob) -> float:
    """Of its youngest rank, as on a machine where nobody else has the processors: it takes longer to begin else."""
    return min((rank.evidence.process.age_seconds / _slowdown(rank) for rank in job.ranks), default=0.0)


def _slowdown(rank: Rank) -> float:
    """Seconds that a second of work of its main thread has taken so far, up to as many as are believed."""
    main = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    if main is None or not main.cpu_seconds or main.delayed_seconds is None:
        return 1.0
    return min(MOST, 1.0 + main.delayed_seconds / main.cpu_seconds)


def _undecided(job: HangJob, progress: JobProgress, state: State, causes: Sequence[HangCause]) -> str:
    """Why there is no primary cause, and the test that decides."""
    if causes and causes[0].confidence >= PRIMARY:
        return ""
    if state == "slow" and progress.busy and progress.waiting:
        busy = progress.busy
        return (
            f"{ranks_of(busy)} {verb(busy, 'was', 'were')} {place_words(busy[0].place)} in both looks and used CPU "
            f"time, while {waiting_words(progress.waiting)}. That is a long step or a rank that has left the common "
            "way: `gpudoctor hang --watch` looks until nothing moves any more."
        )
    if state == "slow" and serves(progress):
        idle = progress.away
        others = f"; {waiting_words(progress.waiting)} for what comes of it" if progress.waiting else ""
        return (
            f"{ranks_of(idle)} {verb(idle, 'waits', 'wait')} for work from outside, in "
            f"{idle[0].place.operation}{at(idle[0].place.user_frame)}{others}. A server between requests looks like "
            "this; in a training program it is where it hangs."
        )
    if state == "starting" and _age(job) >= YOUNG_SECONDS:
        missing = f" {len(job.missing)} of {job.world_size} ranks were not seen." if job.missing else ""
        return (
            f"The ranks wait for each other to begin, and nothing that was read hinders them.{missing} Look at all "
            "nodes of the job: `gpudoctor hang --hosts` names them."
        )
    if state != "hung":
        if state == "running" and not any(rank.evidence.samples for rank in job.ranks):
            return _why_not_seen(job)
        if state == "running" and job.ranks and all(rank.place.kind == "unknown" for rank in job.ranks):
            seen = "Processes were seen to run, and whether the job gets on was not: no stack could be read."
            return f"{seen} {_why_no_stack(job)}"
        if progress.verdict == "unknown" and any(rank.place.operation.startswith(MPI) for rank in progress.waiting):
            return (
                f"{waiting_words(progress.waiting)}, in both looks, and MPI spins there whether or not its peers come. "
                "`gpudoctor hang --watch` compares looks that lie further apart."
            )
        if progress.verdict == "unknown" and job.ranks:
            return (
                "Whether it gets on was not to be seen: no rank that waits could be compared in two looks. "
                "`gpudoctor hang --watch` compares looks that lie further apart."
            )
        return ""
    if causes:
        names = ", ".join(dict.fromkeys(cause.cause for cause in causes[:3]))
        test = causes[0].confirm
        sure = _what_is_seen(job, progress)
        return (
            f"Nothing moves, and several causes fit ({names})."
            + (f" What is seen: {sure}." if sure else "")
            + (f" What decides: {test}" if test else "")
        )
    if not job.ranks and job.agreement is not None:
        return _why_dumps_do_not_decide(job.agreement)
    if job.missing and job.ranks:
        unseen = (
            f"Nothing moves, and {ranks_of(job.missing)} of {job.world_size} {verb(job.missing, 'was', 'were')} not"
        )
        if lost := job.evidence.lost:
            return f"{unseen} seen. {', '.join(list(lost)[:4])} could not be asked: {next(iter(lost.values()))}."
        return f"{unseen} seen: look at their nodes too, with `{line_for_all_nodes(job)}`."
    if not any(rank.place.kind != "unknown" for rank in job.ranks):
        seen = "Nothing moves, and no stack could be read, so where the ranks are is not known."
        return f"{seen} {_why_no_stack(job)}"
    kinds = {rank.place.kind for rank in progress.waiting}
    if job.world_size == 1 and kinds == {"cuda sync"}:
        return _why_alone(job.ranks[0])
    if progress.waiting and not progress.away:
        where = "wait for each other to begin" if kinds <= STARTING else "wait in collectives"
        return (
            f"All ranks {where}, and nothing that was read tells them apart. A flight recorder of every rank decides "
            "whether they came to the same collective; where they did, test the network: `gpudoctor nccl-test`."
        )
    sure = _what_is_seen(job, progress)
    seen = f" What is seen: {sure}." if sure else ""
    return f"Nothing moves, and no rule explains it.{seen} Native stacks may: `gpudoctor hang --native`."


def _what_is_seen(job: HangJob, progress: JobProgress) -> str:
    """Where ranks have parted, or else where each party of them stands: true whatever the reason."""
    stand = [*map(waiting_words, parties(progress.waiting)), *map(standing_words, parties(progress.away))]
    return where_they_part(job) or ("; ".join(stand[:4]) if len(stand) > 1 else "")


def _why_alone(rank: Rank) -> str:
    """CUDA's calls return before their work is done: the line that waits is seldom the one that began it."""
    return (
        "There is no other rank that it could wait for: its GPU does not end what it was given, so a kernel of the "
        "program runs on without end, or waits for what nobody does (a copy, another stream). Started with "
        "CUDA_LAUNCH_BLOCKING=1 it stands in the call that began it; "
        f"`cuda-gdb -p {rank.pid}` and `info cuda kernels` name the kernel."
    )


def _why_no_stack(job: HangJob) -> str:
    """What hindered us, where that is no permission; else how to get it."""
    reasons = (each.reason for node in job.nodes for each in node.unread if each.what.startswith("stack of "))
    first = next(reasons, "")
    if first and "permi" not in first:
        return f"What hindered it: {first}."
    return (
        "Run gpudoctor as the job's user with ptrace allowed, or as root; `gpudoctor.arm()` in the program needs "
        "neither."
    )


def _why_dumps_do_not_decide(agreement: Agreement) -> str:
    if unseen := [suspect.rank for suspect in agreement.waits.suspects if suspect.why == "unseen"]:
        return (
            f"What the ranks wait in leads to {ranks_of(unseen)}, of which no flight recorder tells enough: the "
            f"{verb(unseen, 'dump', 'dumps')} of {verb(unseen, 'that rank decides', 'those ranks decide')}."
        )
    first = agreement.first
    entry = f" {collective_words(first.parties[0][1])}" if first is not None and first.parties else " one operation"
    return (
        f"By the flight recorders ranks have come to{entry} and nobody has ended it, and none is behind: the network "
        "between them, or what they compute before it. `gpudoctor nccl-test` tries the network."
    )


def _why_not_seen(job: HangJob) -> str:
    """Of a job of which no rank was looked at."""
    if not job.ranks:
        if job.agreement is not None and job.agreement.waits.in_flight:
            return (
                "All that had not ended was issued just before these flight recorders were written: the job may have "
                "got on. Dumps of a job that stands, taken some seconds apart, decide."
            )
        if job.agreement is not None and job.agreement.is_empty:
            return (
                "These flight recorders hold nothing: they were off, as they are before torch 2.11 unless "
                "TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE before 2.8) is in the environment."
            )
        if job.agreement is not None:
            return (
                "Only flight recorders were read, and in these the ranks agree: whether the job gets on they do not "
                "tell. Where a rank's dump is missing, that one decides."
            )
        return (
            "Its processes do not say which ranks they are, and could not be asked. Run gpudoctor as the job's user or "
            "as root."
        )
    reasons = [*job.evidence.lost.values(), *(unread.reason for node in job.nodes for unread in node.unread)]
    why = f": {reasons[0]}" if reasons else ""
    return f"Could not look at its processes{why}. They were there when the look began; `gpudoctor hang` looks again."


def _only_recorder(job: HangJob, state: State) -> str:
    """What a flight recorder would add, where none was read and it matters."""
    if job.agreement is not None or state not in ("hung", "slow") or not job.ranks:
        return ""
    return (
        "No flight recorder was read. Only it tells which collective of which process group each rank has reached, and "
        "whether tensor sizes agree: `gpudoctor.arm()` in the program makes it readable (torch 2.11 and later record "
        "by default, older ones with TORCH_FR_BUFFER_SIZE=2000 in the environment)."
    )
