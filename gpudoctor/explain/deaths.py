"""Which rank died first, and of what: tracebacks of a program's own errors, and signals."""

import re
import signal

from msgspec import Struct

from gpudoctor.causes import CAUSES
from gpudoctor.explain.candidate import LIVED_ON, Candidate
from gpudoctor.explain.classes import cause_of, judged_exception, judged_message, variant_of
from gpudoctor.explain.endings import OF_SIGNAL, Ending, signal_named, signal_number
from gpudoctor.explain.order import Facts
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Event, ToldExit, ToldTraceback, clean
from gpudoctor.explain.standard import STANDARD
from gpudoctor.explain.things import is_removed
from gpudoctor.explain.to_change import sets_it
from gpudoctor.explain.tracebacks import Raised
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.wording import ranges, shortened
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_for
from gpudoctor.sure import LIKELY, POSSIBLE, PROVED, SEEN

OF_TORCHRUN = "ChildFailedError"
"""Its last words, once (torch/distributed/launcher/api.py)."""
OF_LAUNCHERS = frozenset(
    {
        *("ChildFailedError", "SignalException", "ProcessExitedException", "CalledProcessError"),
        *("ProcessRaisedException", "EngineDeadError", "ActorDiedError", "RayActorError", "WorkerCrashedError"),
        *("ActorUnavailableError", "LocalRayletDiedError", "NodeDiedError", "OwnerDiedError", "ObjectLostError"),
        *("ObjectReconstructionFailedError", "ObjectReconstructionFailedMaxAttemptsExceededError"),
        *("ObjectReconstructionFailedLineageEvictedError", "ExecuteUserScriptError"),
    }
)
"""What a launcher, or who calls workers, raises because one has failed (torch.multiprocessing.spawn, vLLM, Ray,
SageMaker)."""
ANNOUNCES = "spawn-ended"
"""Where that stands in a traceback, what the process raised follows in it."""
REFERS = lazy_re(
    r"(?i)\bsee (?:the )?(?:root cause|stack ?trace|traceback|errors?|logs?|output)\b[^.\n]{0,40}"
    r"(?:\babove\b|\bfor (?:the )?(?:root cause|reason|details)\b)"
    r"|\bother (?:ranks|processes|workers|nodes) that (?:did(?:n't| not)|have(?:n't| not)|failed|died|crashed)\b"
)
"""An error whose message says itself that another one came first (vLLM's engine, of its core), or that others did not
get as far (SGLang, of loading a model)."""
CUT_OFF = lazy_re(r"Ran out of input|pickle data was truncated|unexpected EOF")
"""CPython's pickle, of what ends too early."""
ASKED = frozenset({"KeyboardInterrupt", "SystemExit"})
OF_A_WORKER = lazy_re(r"^DataLoader worker \(pid[^)\n]{1,40}\) is killed by signal: Terminated\b")
"""torch/utils/data/_utils/signal_handling.py, of SIGTERM: who ends a job sends it to all of its processes."""
TERMINATED = "terminated"
"""With which vLLM's handler of SIGTERM raises a KeyboardInterrupt (entrypoints/openai/api_server.py)."""
OF_A_SIGNAL = lazy_re(r"^SIG(?P<name>TERM|INT|HUP|USR[12])\w{0,20}$", re.IGNORECASE)
"""What a handler of a signal raises, by its name (Lightning's SIGTERMException)."""
GOT_SIGNAL = lazy_re(r"\bgot signal: (?P<name>\w{1,12})")
"""torchrun's SignalException, with the number in most releases, the name in some."""
OF_COMMUNICATION = lazy_re(
    r"^(?:Dist\w*Error|RendezvousError|Rendezvous\w*Error|ConnectionResetError|BrokenPipeError|EOFError)$"
)
OF_NCCL = lazy_re(r"\bNCCL (?:error|communicator)|\bnccl\w{2,30}Error\b")
OF_OTHERS: frozenset[Class] = frozenset({"nccl-timeout", "dead-rank", "rendezvous", "route", "exception"})
"""What words of an exchange that failed tell of the other end only."""
WAITED = lazy_re(r"(?i)timed? ?-?out|deadline|failed to pass monitoredBarrier")
ASKED_BY_SIGNAL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ROW = lazy_re(r"^\s*(?:time|host|rank|exitcode|error_file|traceback)\s{1,8}: ")
"""Of torchrun's table: the launcher's words, and not the rank's."""
LITTLE, MOST_EXPLAINING = 40, 4
"""A message of fewer characters is shown with so many of the lines behind it (our choice)."""
AFTERWARDS = 300
"""Lines of a log behind a traceback after which we take it for one that was caught, where nothing else failed."""


class Spoken(Struct, frozen=True, kw_only=True):
    """A traceback, and the symptoms that its lines show."""

    told: ToldTraceback
    events: tuple[Event, ...]

    @property
    def first(self) -> Raised:
        return self.told.traceback.raised[0]

    @property
    def last(self) -> Raised:
        return self.told.traceback.raised[-1]

    @property
    def known(self) -> Raised | None:
        """The first of the chain of which it is known what solves it."""
        return next(
            (raised for raised in self.told.traceback.raised if remedy_for(raised.type, raised.all_words)), None
        )

    def retold(self, error: Raised) -> tuple[Line, ...]:
        """What the chain ends with, where that tells of the same: it may name more of it."""
        if self.last is error or error is not self.known:
            return ()
        inner, outer = (remedy_for(raised.type, raised.all_words) for raised in (error, self.last))
        return lines_of(self.told.at.file, self.last)[:1] if inner and outer and inner[0] is outer[0] else ()

    @property
    def frame(self) -> Line | None:
        """The line of the log that names the user's frame."""
        number, text = self.first.frame
        return Line(self.told.at.file, number, clean(text)) if number else None

    @property
    def waited(self) -> bool:
        """It says that something was waited for until a time-out."""
        return any(WAITED.search(raised.message) for raised in self.told.traceback.raised) or any(
            WAITED.search(event.at.text) for event in self.events
        )

    @property
    def is_left(self) -> bool:
        """A child of multiprocessing that was only beginning: its parent ended before it had sent what it is to do."""
        return (
            self.first.innermost.endswith("multiprocessing/spawn.py")
            and CUT_OFF.search(self.first.all_words) is not None
        )

    @property
    def signalled(self) -> signal.Signals | None:
        """By which it was asked to end, as what it raised last says."""
        if self.last.name == "KeyboardInterrupt":
            return signal.SIGTERM if self.last.message == TERMINATED else signal.SIGINT
        if OF_A_WORKER.search(self.last.message):
            return signal.SIGTERM
        named = OF_A_SIGNAL.match(self.last.name)
        if named is None and self.last.name == "SignalException":
            named = GOT_SIGNAL.search(self.last.message)
        return None if named is None else signal_named(named["name"])

    @property
    def kind(self) -> str:
        """ "cause": a symptom in it explains it. "consequence": others failed before. "asked": somebody ended it.
        "communication": the exchange failed, in words that nobody knows. "own": an error of the program."""
        roles = {event.symptom.role for event in self.events if event.symptom.id != ANNOUNCES}
        if "cause" in roles:
            return "cause"
        if self.is_left:
            return "consequence"
        if self.known:
            return "own"
        names = {raised.name for raised in self.told.traceback.raised}
        if roles & {"connection", "consequence"} or names & OF_LAUNCHERS or REFERS.search(self.first.all_words):
            return "consequence"
        if self.last.name in ASKED or self.signalled is not None:
            return "asked"
        if self.last.name == "Exit" or not ("." in self.last.type or self.last.name[:1].isupper()):
            return "asked"
        if any(OF_COMMUNICATION.match(name) for name in names):
            return "communication"
        if self.last.name == "RuntimeError" and any(raised.collective for raised in self.told.traceback.raised):
            judged = None if OF_NCCL.search(self.last.all_words) else judged_message(self.last.all_words)
            return "communication" if judged is None or judged.kind in OF_OTHERS else "own"
        return "own"


def spoken(facts: Facts) -> list[Spoken]:
    """Each traceback with the symptoms in its lines (of its own rank)."""
    by_file: dict[str, list[Event]] = {}
    for event in facts.events:
        by_file.setdefault(event.at.file, []).append(event)
    return [
        Spoken(
            told=traceback,
            events=tuple(
                event
                for event in by_file.get(traceback.at.file, ())
                if traceback.traceback.first_line <= event.at.line <= traceback.traceback.last_line
                and (event.rank in (traceback.rank, None) or traceback.rank is None or "rank" in event.values)
            ),
        )
        for traceback in facts.tracebacks
    ]


OF_LOOSE_WORDS: tuple[Class, ...] = ("argument", "exception", "assertion")
SAYS_NO_MORE = (
    *("refused", "handed", "own-check", "in-package", "by-package", "by-client", "outside", "own-line"),
    *("asserted", "alone", "at"),
)
"""Classes that only words of refusing show, and fixes that only quote these: that it was raised is seen, and of what it
came is likely, so that trouble before it counts."""


KNOWN_BY_PLACE = ("own-attribute", "no-variable", "no-launcher")
"""What the place tells surer than the type or the words."""


def own_errors(tracebacks: list[Spoken], facts: Facts, *, failed: bool) -> list[Candidate]:
    """An error of the program itself that ended a rank."""
    errors = []
    alone = facts.alone
    for traceback in tracebacks:
        if traceback.kind != "own" or not (failed or traceback.told.lines_after <= AFTERWARDS):
            continue
        error, rank = traceback.known or traceback.first, traceback.told.rank
        who = f"rank {rank}" if rank is not None else "the program" if alone else "a process"
        is_shown = bool(error.file) and STANDARD.search(error.file) is None  # no one can mend Python's own library
        place = f" at {error.file}:{error.at}" if is_shown else ""
        function = f" in {error.function}" if is_shown and error.function not in ("", "<module>") else ""
        message = f"{error.type}: {error.words}" if error.words else error.type
        judged = judged_exception(
            *(error.type, error.all_words, error.innermost, error.raised_by, error.function),
            error.code or error.source,
        )
        cause = cause_of(judged)
        variant, more = variant_of(
            cause,
            judged,
            error.type,
            error.all_words,
            alone=alone,
            raised_in=error.innermost,
            raised_by=error.raised_by,
            code=error.code,
            source=error.source,
        )
        if variant in KNOWN_BY_PLACE:
            judged = CAUSES[cause].judge(variant)
        if variant == "own-line" and not is_shown:
            variant = "alone" if alone else "at"
        if cause == "program-error" and rank is not None and is_removed_by_another(error):
            cause, variant, judged = "checkpoint-race", "gone", CAUSES["checkpoint-race"].judge("gone")
        told = failed and not (judged.kind in OF_LOOSE_WORDS and variant in SAYS_NO_MORE)
        sure = POSSIBLE if traceback.told.traceback.follows else SEEN if told else LIKELY
        errors.append(
            Candidate(
                cause=cause,
                variant=variant,
                judged=judged,
                hosts=(traceback.told.host,) if traceback.told.host else (),
                values={"place": place if sets_it(error, variant) else "", "who": who, **more},
                confidence=sure * (LIVED_ON if traceback.told.lived_on else 1.0),
                standing="cause",
                moment=traceback.told.moment,
                summary=f"{who} died of {shortened(message)}{place}{function}",
                ranks=() if rank is None else (rank,),
                evidence=(*traceback.retold(error), *lines_of(traceback.told.at.file, error)),
            )
        )
    return errors


def is_removed_by_another(error: Raised) -> bool:
    """A rank was removing or moving what another one has removed before."""
    return error.name == "FileNotFoundError" and is_removed(error.raised_by, f"{error.code} {error.source}")


def lines_of(file: str, error: Raised) -> tuple[Line, ...]:
    """The line that names an exception; the next ones too where it only announces them."""
    text = f"{error.type}: {error.message}" if error.message else error.type
    explains = not error.message or len(error.message) < LITTLE or error.message.endswith((":", "."))
    more = error.more[:MOST_EXPLAINING] if explains else ()
    return Line(file, error.line, shortened(text, 500)), *(Line(file, number, text) for number, text in more)


def signals(facts: Facts, tracebacks: list[Spoken]) -> list[Candidate]:
    """Ranks that a signal ended which no launcher sends first; ranks that ended and do not say why."""
    forced = {ended.pid for ended in facts.exits if ended.exit.forced}
    of_launcher = {(ended.at.file, ended.at.line) for ended in facts.exits}
    said = {traceback.told.rank for traceback in tracebacks} | {
        event.rank
        for event in facts.events
        if event.symptom.role != "context"
        and (event.at.file, event.at.line) not in of_launcher
        and not ROW.match(event.at.text)
    }
    anonymous = any(
        traceback.told.rank is None and traceback.kind in ("own", "cause", "communication") for traceback in tracebacks
    ) or any(
        event.rank is None and event.symptom.role == "cause" and event.symptom.cause == "program-error"
        for event in facts.events
    )
    first: dict[tuple[int | None, int | None], ToldExit] = {}
    for ended in facts.exits:
        if ended.exit.exitcode and ended.pid not in forced:
            first.setdefault((ended.rank, ended.pid), ended)
    deaths = []
    for ended in first.values():
        code = ended.exit.exitcode or 0
        number = signal_number(code)
        known = OF_SIGNAL.get(number)
        if known is None and (number in ASKED_BY_SIGNAL or ended.rank in said or (anonymous and number == 0)):
            continue
        how = signal.Signals(number).name if number in set(signal.Signals) else f"exit status {code}"
        words = f"ended with {how}, and no line that is known here says why"
        silent = Ending("rank-died", "silent", LIKELY if number else POSSIBLE, words)
        deaths.append(_death(ended, known or silent, how, facts))
    return deaths


def _death(ended: ToldExit, known: Ending, how: str, facts: Facts) -> Candidate:
    who = f"rank {ended.rank}" if ended.rank is not None else f"process {ended.pid}"
    cause, variant, confidence, words = known.cause, known.variant, known.confidence, known.words.format(name=how)
    by_kernel = [
        event.at
        for event in facts.events
        if event.symptom.cause == "host-out-of-memory" and ended.pid is not None and event.pid == ended.pid
    ]
    if variant == "sigkill" and by_kernel:
        cause, variant, confidence = "host-out-of-memory", "", PROVED
        words += ": the kernel was out of memory"
    return Candidate(
        cause=cause,
        variant=variant,
        values={"who": who},
        confidence=confidence,
        standing="cause",
        moment=ended.moment,
        summary=f"{who} (pid {ended.pid}) {words}",
        ranks=() if ended.rank is None else (ended.rank,),
        hosts=(ended.host,) if ended.host else (),
        evidence=(ended.at, *(by_kernel[:2] if cause == "host-out-of-memory" else ())),
    )


def alive_at_the_end(facts: Facts) -> set[int]:
    """Ranks that their launcher had to end: they had not died by themselves."""
    by_pid = {ended.pid: ended.rank for ended in facts.exits if ended.rank is not None}
    return {
        rank
        for ended in facts.exits
        if ended.exit.exitcode in (None, -15, -9 if ended.exit.forced else None)
        and (rank := ended.rank if ended.rank is not None else by_pid.get(ended.pid)) is not None
    }


def ended_well(facts: Facts, absent: set[int]) -> set[int]:
    """Those of the absent that had ended with status 0 before: torchrun ends all that live when one fails, and lists
    all that ended otherwise. Of a rank between others of its node; none where it ended a process that it does not list.
    """
    rows = [ended for ended in facts.exits if ended.rank is not None and ended.local_rank is not None]
    listed = {ended.rank: ended.local_rank for ended in rows}
    firsts = {rank - local for rank, local in listed.items() if rank is not None and local is not None}
    had_to_end = {ended.pid for ended in facts.exits if ended.exit.exitcode is None}
    if len(firsts) != 1 or not had_to_end <= {ended.pid for ended in rows}:
        return set()
    return {rank for rank in absent if min(firsts) <= rank < max(rank for rank in listed if rank is not None)} - {
        *listed
    }


def ranks_text(ranks: list[int] | set[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ranges(ranks)
