"""Facts of the logs -> the first cause, what else it may be, and what only follows."""

import signal
from collections import Counter
from itertools import accumulate

from msgspec import Struct, structs

from gpudoctor.cause import Cause, Judged
from gpudoctor.causes import CAUSES
from gpudoctor.explain.absent import missing
from gpudoctor.explain.candidate import DIED_OF, SURE, Candidate, Standing, in_order, merged, of_symptom
from gpudoctor.explain.classes import judged_exception
from gpudoctor.explain.deaths import AFTERWARDS, OF_TORCHRUN, Spoken, own_errors, ranks_text, signals, spoken
from gpudoctor.explain.dumped import as_dumped
from gpudoctor.explain.elsewhere import elsewhere, key_of_nobody, stood_elsewhere
from gpudoctor.explain.endings import judged_signal, judged_status_of_windows
from gpudoctor.explain.fingerprints import FINGERPRINTS, of_fingerprints, own_collectives
from gpudoctor.explain.first_messages import first_messages
from gpudoctor.explain.graphs import unlike_graphs
from gpudoctor.explain.lines_to_paste import lines_for
from gpudoctor.explain.members import membership
from gpudoctor.explain.only_network import LEADS_TO_NO_NODE, on_one_host, without_its_network
from gpudoctor.explain.order import Facts
from gpudoctor.explain.own_address import own_addresses
from gpudoctor.explain.placed import placed, reckoned, surely_placed
from gpudoctor.explain.program import UserProgram, agreed, by_program, by_recorders, on_the_way
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.rooted import as_they_came, left_out
from gpudoctor.explain.rounds import rounds_apart
from gpudoctor.explain.scan import Event, Moment
from gpudoctor.explain.sizes import printed_batches, printed_sizes
from gpudoctor.explain.state_dicts import STATE_DICTS, of_state_dicts
from gpudoctor.explain.unspoken import OF_OTHERS, SENTENCE
from gpudoctor.explain.waits import Wait, pattern, places, waits
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import BEST, HINT
from gpudoctor.symptom import Role

ALONE = "The program ended by an exception that it did not catch."
MOST_CAUSES = 5
MOST_CONSEQUENCES = 12
MOST_STORY = 12
UNDECIDED = 0.5
"""A first cause that is less likely than this is called undecided."""
BEHIND = 0.75
"""What is left of an alternative's confidence that came later than a sure first cause: it may follow from it."""
PROMOTED = 0.7
"""What is left of the confidence of something that is no fault by itself, when something failed."""
OF_A_FRAME = "raise "
"""The source of a traceback's frame: what it raised stands below."""
ENDED_BY_SCHEDULER = ("cancelled", "time-limit", "preempted")
"""Behind which a process writes until the scheduler's grace is over."""
BRINGS_A_WAIT: tuple[Class, ...] = ("deadlock", "device-ordinal", "config", "stopped")
"""Of what is no fault by itself: what makes ranks wait, and raises nothing of a program's own."""
CONNECTIONS = 0.75
"""What is left of that of a failed connection: the other end may have died."""
FAILED_BEFORE = "what failed before it"
"""How it is said that a line tells only what followed."""
FOLLOWS = 0.6
"""What is left of that of a consequence: another cause may have it too."""
RETURNED = lazy_re(r"returned non-zero exit status (?P<code>-?\d{1,10})\.?$")
"""CPython's subprocess.py: what was called has failed, and says itself why."""
OF_DATA = ("gpu-out-of-memory", "gpu-program-fault")
"""What values that never arrived may bring about: sizes and indices out of nowhere."""
WEAK = 0.4
"""A cause of a lower confidence is named only where something failed."""


class Conclusion(Struct, frozen=True, kw_only=True):
    causes: tuple[LogCause, ...]
    waited: bool = False
    """Ranks waited for one another until their time was up."""
    unknown: str | None
    judged: Judged | None = None
    """Of what is unknown: its class, where its words tell it."""
    consequences: tuple[Line, ...]
    story: tuple[Line, ...]


AT_THE_FIRST = "device-not-set"
"""Where that makes ranks wait, the first collective does not end: of those that have completed some it is no cause."""


def conclude(facts: Facts, *, stands: bool = False, program: UserProgram | None = None) -> Conclusion:
    """The first cause by role, then by what came first, then by confidence; alternatives behind it.

    `stands`: a log ends while something is tried again and again. `program`: what tells of the user's program."""
    tracebacks = spoken(facts)
    aborted = after_time_out(facts, tracebacks)
    frames = {id(event): frame for traceback in tracebacks for event in traceback.events if (frame := traceback.frame)}
    failed = stands or _something_failed(facts, tracebacks)
    candidates = [
        _placed(of_symptom(event, standing="connection" if event.lived_on else "cause"), frames.get(id(event)))
        for event in facts.events
        if event.symptom.role == "cause"
        and (failed or (event.symptom.confidence >= WEAK and not event.lived_on))
        and event.symptom.id not in (*FINGERPRINTS, *STATE_DICTS)
        and not (event.symptom.cause in OF_DATA and any(event in each.events for each in aborted))
    ]
    candidates += of_state_dicts(facts.events, frames)
    undescribed = own_collectives(facts, tracebacks)
    described = surely_placed(undescribed, facts, program)
    compared = of_fingerprints(described, _alone(facts, frames))
    own = own_errors([traceback for traceback in tracebacks if traceback not in aborted], facts, failed=failed)
    candidates += own
    candidates += own_addresses(facts)
    candidates += without_its_network(facts)
    candidates += signals(facts, tracebacks)
    died = {rank for candidate in candidates if candidate.standing == "cause" for rank in candidate.ranks}
    everywhere = waits(facts, tracebacks, aborted)
    untold = as_dumped(everywhere, facts)
    choices = placed(untold, facts, program)
    waiting = choices[0] if len(choices) == 1 else untold
    candidates = [_whose_prompt(candidate, facts, waiting) for candidate in candidates]
    if not any(each.standing == "cause" and each.confidence >= SURE for each in (*candidates, *compared)):
        came = as_they_came(waiting)
        stood = stood_elsewhere(everywhere, waiting, tracebacks)
        first = {wait.rank: wait for wait in (*came, *stood, *described)}  # a mismatch is told before any time is up
        by_program_itself = by_program(list(first.values()), facts, program) if not died else []
        by_program_itself = by_program_itself or (agreed(choices, facts, program) if not died else [])
        # Which line it was, and below which condition, is more than that operations and sizes differ.
        sure = by_program_itself and by_program_itself[0].confidence >= BEST
        compared = [] if sure else compared
        found = (
            by_program_itself
            if sure
            else _surer(
                elsewhere(stood, waiting)
                or key_of_nobody(waiting, tracebacks, facts)
                or left_out(waiting)
                or unlike_graphs(came)
                or first_messages(waiting, tracebacks)
                or rounds_apart(waiting, facts, choices)
                or on_the_way(waiting, facts, program, died)
                or pattern(came, facts, died),
                by_recorders(waiting, facts, program) if not died else [],
            )
        )
        candidates += [reckoned(each) for each in found] if (waiting, described) != (untold, undescribed) else found
    candidates += compared
    candidates += membership(facts)
    candidates += printed_sizes(facts, failed=failed)
    contexts: list[Candidate] = []
    if failed:
        candidates += printed_batches(facts)
        contexts = _by_itself(facts, "context", "pattern", PROMOTED)
        if any(wait.completed is not None and wait.completed > 0 for wait in waiting):
            contexts = [each for each in contexts if each.cause != AT_THE_FIRST]
        candidates += contexts
    candidates += _by_itself(facts, "connection", "connection", CONNECTIONS)
    candidates += _by_itself(facts, "consequence", "consequence", FOLLOWS)
    later = [event for event in facts.events if event.symptom.role in ("connection", "consequence")]
    weighed = merged(_one_story(candidates))
    if any(candidate.confidence >= UNDECIDED for candidate in own):
        weighed = [_beside_an_error(candidate, contexts) for candidate in weighed]
    ordered = in_order(weighed)
    if ordered and ordered[0].standing in ("cause", "pattern") and ordered[0].confidence >= SURE:
        # what a connection or a time-out says is explained by a cause that is sure
        ordered = [candidate for candidate in ordered if candidate.standing in ("cause", "pattern")]
        ordered = [ordered[0], *(_behind(candidate, ordered[0]) for candidate in ordered[1:])]
    alone = facts.alone
    causes = tuple(_published(candidate, alone=alone) for candidate in _descending(ordered[:MOST_CAUSES]))
    unknown = None
    if failed and (not causes or causes[0].confidence < UNDECIDED):
        unknown = _unknown(facts, tracebacks, _waited(causes, waiting))
    judged = _judged_unknown(tracebacks) if unknown else None
    cited = {line for cause in causes[:1] for line in cause.evidence}
    consequences = _consequences(later, tracebacks, cited)
    return Conclusion(
        causes=causes,
        waited=bool(waiting),
        unknown=unknown,
        judged=judged,
        consequences=consequences if causes else (),
        story=_story(facts, tracebacks) if causes or unknown else (),
    )


def _whose_prompt(candidate: Candidate, facts: Facts, waiting: list[Wait]) -> Candidate:
    """A prompt is signed by nobody: it is of the only rank for which the others waited."""
    absent = missing(facts, {wait.rank for wait in waiting}) if waiting else set()
    if candidate.cause != "stopped-rank" or candidate.ranks or len(absent) != 1:
        return candidate
    return structs.replace(candidate, ranks=tuple(absent))


def _surer(of_log: list[Candidate], of_recorders: list[Candidate]) -> list[Candidate]:
    """What recorders show, where that is more than the log by itself does."""
    more = of_recorders and (not of_log or of_recorders[0].confidence > of_log[0].confidence)
    return of_recorders if more else of_log


def _beside_an_error(candidate: Candidate, contexts: list[Candidate]) -> Candidate:
    """What makes ranks wait, and is no fault by itself, is less than a program's own error, however many ranks were
    warned of it."""
    warned = any(candidate.cause == context.cause for context in contexts)
    if candidate.standing != "pattern" or not warned or CAUSES[candidate.cause].kind not in BRINGS_A_WAIT:
        return candidate
    return structs.replace(candidate, confidence=min(candidate.confidence, HINT))


def _alone(facts: Facts, frames: dict[int, Line]) -> list[Candidate]:
    """What each description of a collective says by itself."""
    fingerprints = (event for event in facts.events if event.symptom.id in FINGERPRINTS)
    return [_placed(of_symptom(event, standing="cause"), frames.get(id(event))) for event in fingerprints]


def _placed(candidate: Candidate, frame: Line | None) -> Candidate:
    """With the line that names where in the user's program it was."""
    return candidate if frame is None else structs.replace(candidate, evidence=(*candidate.evidence, frame))


def after_time_out(facts: Facts, tracebacks: list[Spoken]) -> list[Spoken]:
    """Tracebacks of ranks whose watchdog had given up before: the communicator is aborted, and what the program does
    with tensors that never arrived tells nothing."""
    first: dict[int, Moment] = {}
    for event in facts.events:
        if event.symptom.id == "watchdog-timeout" and event.rank is not None:
            first.setdefault(event.rank, event.moment)
    return [
        traceback
        for traceback in tracebacks
        if traceback.told.rank in first and first[traceback.told.rank].is_before(traceback.told.moment)
    ]


def _by_itself(facts: Facts, role: Role, standing: Standing, share: float) -> list[Candidate]:
    forced = {ended.rank for ended in facts.exits if ended.exit.forced} - {None}
    return [
        of_symptom(event, standing=standing, share=share)
        for event in facts.events
        if event.symptom.role == role
        and event.symptom.cause
        and not (event.symptom.cause == "rank-died" and event.rank in forced)  # torchrun has killed it
        and not (event.symptom.id in LEADS_TO_NO_NODE and on_one_host(facts))
    ]


def _one_story(candidates: list[Candidate]) -> list[Candidate]:
    """Where memory ran out, a SIGKILL that nobody explains was the kernel's."""
    if not any(candidate.cause == "host-out-of-memory" and candidate.standing == "cause" for candidate in candidates):
        return candidates
    return [
        structs.replace(candidate, cause="host-out-of-memory", variant="")
        if candidate.variant == "sigkill"
        else candidate
        for candidate in candidates
    ]


def _descending(ordered: list[Candidate]) -> list[Candidate]:
    """No alternative is called surer than what stands before it: the order says more than one line's confidence."""
    least = accumulate((candidate.confidence for candidate in ordered), min)
    return [
        structs.replace(each, confidence=round(confidence, 2)) for each, confidence in zip(ordered, least, strict=True)
    ]


def _waited(causes: tuple[LogCause, ...], waiting: list[Wait]) -> str:
    """Who waited, and for whom where that is known."""
    never_came = next((cause.summary for cause in causes if "did not come" in cause.summary), "")
    return never_came if waiting and never_came else places(waiting)


def _behind(candidate: Candidate, first: Candidate) -> Candidate:
    later = first.moment.is_before(candidate.moment)
    confidence = min(candidate.confidence * (BEHIND if later else 1.0), first.confidence - 0.01)
    return structs.replace(candidate, confidence=round(max(0.01, confidence), 2))


def _something_failed(facts: Facts, tracebacks: list[Spoken]) -> bool:
    return (
        any(ended.exit.exitcode not in (None, 0) for ended in facts.exits)
        or any(event.symptom.role in ("connection", "consequence") for event in facts.events)
        or any(
            (traceback.kind != "asked" or traceback.signalled is not None) and traceback.told.lines_after <= AFTERWARDS
            for traceback in tracebacks
        )
    )


def _published(candidate: Candidate, *, alone: bool) -> LogCause:
    """`alone`: nothing in the logs speaks of several ranks, and of a program's error nothing is said of others."""
    known = CAUSES[candidate.cause]
    judged = candidate.judged or known.judge(candidate.variant)
    return LogCause(
        cause=candidate.cause,
        kind=judged.kind,
        blame=judged.blame,
        restart=judged.restart,
        nodes=candidate.hosts,
        confidence=candidate.confidence,
        ranks=candidate.ranks,
        evidence=candidate.evidence,
        summary=candidate.summary,
        meaning=_meaning(candidate, known, alone=alone),
        fix=known.remedy(
            candidate.variant, *lines_for(candidate.cause, candidate.variant, candidate.values), **candidate.values
        ),
        confirm=candidate.confirm or ("" if known.id == "program-error" else known.test(candidate.variant)),
    )


def _meaning(candidate: Candidate, known: Cause, *, alone: bool) -> str:
    """`alone`: nothing in the logs speaks of several ranks, and of others nothing is said."""
    if known.id == "program-error" and not DIED_OF.search(candidate.summary):
        return ""  # a kubelet's or a loader's line: what it means is what it says
    if known.id == "program-error" and (alone or candidate.variant == "alone"):
        return ALONE
    meant = known.meant(candidate.variant)
    return " ".join(said for said in SENTENCE.split(meant) if not OF_OTHERS.search(said)) if alone else meant


def _consequences(later: list[Event], tracebacks: list[Spoken], cited: set[Line]) -> tuple[Line, ...]:
    """One line of each kind, the first."""
    lines: dict[str, Line] = {}
    for event in later:
        lines.setdefault(event.symptom.id, event.at)
    for traceback in tracebacks:
        if traceback.kind in ("consequence", "communication") and not traceback.events:
            lines.setdefault(traceback.last.type, traceback.told.at)
    return tuple(line for line in lines.values() if line not in cited)[:MOST_CONSEQUENCES]


def _story(facts: Facts, tracebacks: list[Spoken]) -> tuple[Line, ...]:
    """The first line of each kind, in order."""
    first: dict[tuple[str, int | None], tuple[Moment, Line]] = {}
    for event in facts.events:
        if (event.symptom.role != "context" or event.symptom.cause) and not event.at.text.startswith(OF_A_FRAME):
            first.setdefault((event.symptom.id, None), (event.moment, event.at))
    for traceback in tracebacks:
        if not traceback.events:
            first.setdefault((traceback.last.type, traceback.told.rank), (traceback.told.moment, traceback.told.at))
    for ended in facts.exits:
        if ended.exit.exitcode not in (None, 0):
            first.setdefault((f"exit {ended.exit.exitcode}", None), (ended.moment, ended.at))
    ordered = sorted(first.values(), key=lambda each: (each[0].time or 0.0, each[0].file, each[0].line))
    return tuple(dict.fromkeys(line for _, line in ordered))[:MOST_STORY]


def _judged_unknown(tracebacks: list[Spoken]) -> Judged | None:
    """By what the first traceback raised, though something else may have failed before it."""
    first = next((traceback for traceback in tracebacks if traceback.last.name != OF_TORCHRUN), None)
    if first is None:
        return None
    if first.signalled is not None:
        return judged_signal(first.signalled)
    if first.kind == "asked" or first.is_left:
        return None
    if first.first.name == "CalledProcessError":
        number = RETURNED.search(first.first.message)
        return judged_status_of_windows(number["code"]) if number else None
    judged = judged_exception(first.first.type, first.first.all_words, first.first.innermost, first.first.raised_by)
    return None if judged.kind == "exception" else judged


def _gone_before(tracebacks: list[Spoken]) -> Event | None:
    """Where all that was raised is that another rank had gone, the first line of that."""
    raised = [traceback for traceback in tracebacks if traceback.last.name != OF_TORCHRUN]
    if not raised or any(traceback.kind != "consequence" for traceback in raised):
        return None
    return next((event for each in raised for event in each.events if event.symptom.role == "consequence"), None)


def _unknown(facts: Facts, tracebacks: list[Spoken], waited: str) -> str:
    """What failed, where nobody can say why."""
    if waited:
        return f"{waited}; why, these logs do not say"
    codes = Counter(ended.exit.exitcode for ended in facts.exits if ended.exit.exitcode not in (None, 0, -15))
    if codes:
        ranks = {ended.rank for ended in facts.exits if ended.exit.exitcode in codes and ended.rank is not None}
        who = ranks_text(ranks) if ranks else counted(sum(codes.values()), "process", "processes")
        status = ", ".join(sorted(f"{code}" for code in codes))
        gone = _gone_before(tracebacks)
        if gone is not None:
            said = of_symptom(gone, standing="consequence").summary
            return f"{who} ended with exit status {status}; {said}, and why, these logs do not say"
        return f"{who} ended with exit status {status}, and no line before says why"
    told = [event for event in facts.events if event.symptom.role in ("consequence", "connection")]
    # who asked for the end says more than who carried it out, and than an exchange that broke off by it
    by_scheduler = next((event for event in told if event.symptom.cause in ENDED_BY_SCHEDULER), None)
    if tracebacks and not (by_scheduler and all(each.kind in ("communication", "consequence") for each in tracebacks)):
        first = tracebacks[0].first
        place = f" at {first.file}:{first.at}" if first.file else ""
        asked = tracebacks[0].signalled
        if asked is signal.SIGINT:
            return f"interrupted{place} by SIGINT: by Ctrl-C, or by who passed it on; why, these logs do not say"
        if asked is not None:
            return f"told to end by {asked.name}{place}; by whom and why, these logs do not say"
        if tracebacks[0].is_left:
            return "a child's parent ended before it had sent what the child is to do; why, these logs do not say"
        return f"{tracebacks[0].told.at.text}{place}: its cause is not known"
    later = by_scheduler or (told[0] if told else None)
    if later is None:
        return "something failed, and no line says why"
    place = next(
        (f" at {traceback.first.file}:{traceback.first.at}" for traceback in tracebacks if traceback.first.own), ""
    )
    said = of_symptom(later, standing="consequence").summary
    ended_from_outside = CAUSES[later.symptom.cause].blame == "scheduler" if later.symptom.cause in CAUSES else False
    before = "whether anything failed before it" if ended_from_outside else FAILED_BEFORE
    return f"{said}{place}; {before}, these logs do not say"
