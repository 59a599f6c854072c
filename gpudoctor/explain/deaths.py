"""Which rank died first, and of what: tracebacks of a program's own errors, and signals."""

import re

from msgspec import Struct

from gpudoctor.command import command
from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts, Moment, Shown
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import ToldTraceback
from gpudoctor.explain.tracebacks import Raised
from gpudoctor.knowledge.wording import ranges

OF_LAUNCHERS = frozenset({"ChildFailedError", "SignalException", "ProcessExitedException", "CalledProcessError"})
"""What a launcher raises because a rank has failed."""
ASKED = frozenset({"KeyboardInterrupt", "SystemExit"})
OF_COMMUNICATION = re.compile(
    r"^(?:Dist\w*Error|RendezvousError|Rendezvous\w*Error|ConnectionResetError|BrokenPipeError|EOFError)$"
)
WAITED = re.compile(r"(?i)timed? ?-?out|deadline|failed to pass monitoredBarrier")
SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 31: "SIGSYS"}
STATUS_OF_SIGNAL = 128
ROW = re.compile(r"^\s*(?:time|host|rank|exitcode|error_file|traceback)\s{1,8}: ")
"""Of torchrun's table: the launcher's words, and not the rank's."""
AFTERWARDS = 300
"""Lines of a log behind a traceback after which we take it for one that was caught, where nothing else failed."""


class Death(Struct, frozen=True, kw_only=True):
    """A rank's end that explains the others'."""

    rank: int | None
    moment: Moment
    kind: str
    """ "exception", "signal" or "status"."""


class Spoken(Struct, frozen=True, kw_only=True):
    """A traceback, and the symptoms that its lines show."""

    told: ToldTraceback
    shown: tuple[Shown, ...]

    @property
    def first(self) -> Raised:
        return self.told.traceback.raised[0]

    @property
    def last(self) -> Raised:
        return self.told.traceback.raised[-1]

    @property
    def moment(self) -> Moment:
        return Moment(self.told.file, self.told.traceback.first_line, self.told.time)

    @property
    def line(self) -> Line:
        return Line(self.told.file, self.last.line, self.told.text)

    @property
    def waited(self) -> bool:
        """It says that something was waited for until a time-out."""
        return any(WAITED.search(raised.message) for raised in self.told.traceback.raised) or any(
            WAITED.search(shown.event.text) for shown in self.shown
        )

    @property
    def kind(self) -> str:
        """ "cause": a symptom in it explains it. "consequence": others failed before. "asked": somebody ended it.
        "communication": the exchange failed, in words that nobody knows. "own": an error of the program."""
        roles = {shown.symptom.role for shown in self.shown}
        if "cause" in roles:
            return "cause"
        names = {raised.name for raised in self.told.traceback.raised}
        if roles & {"connection", "consequence"} or names & OF_LAUNCHERS:
            return "consequence"
        if self.last.name in ASKED:
            return "asked"
        if self.last.name == "Exit" or not ("." in self.last.type or self.last.name[:1].isupper()):
            return "asked"
        if any(OF_COMMUNICATION.match(name) for name in names):
            return "communication"
        if self.last.name == "RuntimeError" and any(raised.collective for raised in self.told.traceback.raised):
            return "communication"
        return "own"


def spoken(facts: Facts) -> list[Spoken]:
    """Each traceback with the symptoms in its lines (of its own rank)."""
    by_file: dict[str, list[Shown]] = {}
    for shown in facts.shown:
        by_file.setdefault(shown.event.file, []).append(shown)
    found = []
    for told in facts.tracebacks:
        first, last = told.traceback.first_line, told.traceback.last_line
        found.append(
            Spoken(
                told=told,
                shown=tuple(
                    shown
                    for shown in by_file.get(told.file, ())
                    if first <= shown.event.line <= last
                    and (shown.event.rank in (told.rank, None) or told.rank is None or "rank" in shown.event.values)
                ),
            )
        )
    return found


def own_errors(tracebacks: list[Spoken], facts: Facts, *, failed: bool) -> list[Candidate]:
    """rank-died: an error of the program itself that ended a rank."""
    found = []
    for each in tracebacks:
        if each.kind != "own" or not (failed or each.told.lines_after <= AFTERWARDS):
            continue
        error, rank = each.first, each.told.rank
        who = f"rank {rank}" if rank is not None else "a process"
        place = f" at {error.file}:{error.at}" if error.file else ""
        function = f" in {error.function}" if error.function and error.function != "<module>" else ""
        message = f"{error.type}: {error.message}" if error.message else error.type
        found.append(
            Candidate(
                cause="rank-died",
                confidence=0.85 if failed else 0.7,
                standing="cause",
                moment=each.moment,
                summary=f"{who} died of {shortened(message)}{place}{function}",
                ranks=() if rank is None else (rank,),
                evidence=(Line(each.told.file, error.line, shortened(message, 500)),),
                fix=f"Correct what raised it{place}; the other ranks only waited for {who}.",
                confirm="The traceback is the first that no other rank's end explains.",
            )
        )
    return found


def shortened(text: str, length: int = 160) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def signals(facts: Facts, tracebacks: list[Spoken]) -> list[Candidate]:
    """Ranks that a signal ended which no launcher sends first; ranks that ended and do not say why."""
    found: list[Candidate] = []
    forced = {ended.pid for ended in facts.exits if ended.exit.forced}
    of_launcher = {(ended.file, ended.exit.line) for ended in facts.exits}
    said = {each.told.rank for each in tracebacks} | {
        shown.event.rank
        for shown in facts.shown
        if shown.symptom.role != "context"
        and (shown.event.file, shown.event.line) not in of_launcher
        and not ROW.match(shown.event.text)
    }
    anonymous = any(each.told.rank is None and each.kind in ("own", "cause", "communication") for each in tracebacks)
    found += [candidate for each in tracebacks if (candidate := _of_spawn(each))]
    done: set[tuple[int | None, int | None]] = set()
    for ended in facts.exits:
        code = ended.exit.exitcode
        if code is None or code == 0 or ended.pid in forced:
            continue
        number = -code if code < 0 else code - STATUS_OF_SIGNAL if STATUS_OF_SIGNAL < code < 160 else 0
        key = ended.rank, ended.pid
        if key in done:
            continue
        done.add(key)
        who = f"rank {ended.rank}" if ended.rank is not None else f"process {ended.pid}"
        ranks = () if ended.rank is None else (ended.rank,)
        line = Line(ended.file, ended.exit.line, ended.exit.text)
        moment = Moment(ended.file, ended.exit.line, ended.time)
        killed_for_memory = [
            shown
            for shown in facts.shown
            if shown.symptom.role == "cause" and ended.pid is not None and shown.pid == ended.pid
        ]
        if number == 9:
            found.append(
                Candidate(
                    cause="rank-died",
                    confidence=0.95 if killed_for_memory else 0.8,
                    standing="cause",
                    moment=moment,
                    summary=f"{who} (pid {ended.pid}) was killed by SIGKILL"
                    + (": the kernel was out of memory" if killed_for_memory else ""),
                    ranks=ranks,
                    evidence=(
                        line,
                        *(Line(each.event.file, each.event.line, each.event.text) for each in killed_for_memory[:2]),
                    ),
                    fix="Mostly the kernel's out-of-memory killer, or the memory limit of the container or SLURM step: "
                    "give the job more memory, or fewer DataLoader workers. Somebody may also have killed it by hand.",
                    commands=(command("sudo dmesg -T | grep -i -A1 'out of memory'"),),
                    confirm="The kernel log or the cgroup's memory.events of that node tells of an oom_kill.",
                )
            )
        elif number == 7:
            found.append(
                Candidate(
                    cause="shm-too-small",
                    confidence=0.6,
                    standing="cause",
                    moment=moment,
                    summary=f"{who} (pid {ended.pid}) ended by SIGBUS, as it does when /dev/shm is full",
                    ranks=ranks,
                    evidence=(line,),
                )
            )
        elif number in SIGNALS and number != 6:
            found.append(
                Candidate(
                    cause="rank-died",
                    confidence=0.8,
                    standing="cause",
                    moment=moment,
                    summary=f"{who} (pid {ended.pid}) crashed in native code: {SIGNALS[number]}",
                    ranks=ranks,
                    evidence=(line,),
                    fix="Start it with PYTHONFAULTHANDLER=1 to see the Python line that it crashed in, then update or "
                    "rebuild that extension.",
                    commands=(command("export PYTHONFAULTHANDLER=1"),),
                )
            )
        elif number == 15 or ended.rank in said or (anonymous and number == 0):
            continue
        elif number not in (2, 1):
            how = SIGNALS.get(number) or f"exit status {code}"
            found.append(
                Candidate(
                    cause="rank-died",
                    confidence=0.6,
                    standing="cause",
                    moment=moment,
                    summary=f"{who} (pid {ended.pid}) ended with {how}, and these logs do not say why",
                    ranks=ranks,
                    evidence=(line,),
                    fix=f"Look for the output of {who}: torchrun --log-dir LOGS --tee 3 keeps it.",
                )
            )
    return found


SPAWNED = re.compile(r"^process (?P<index>\d{1,6}) terminated with signal (?P<signal>SIG[A-Z0-9]{2,8})")


def _of_spawn(each: Spoken) -> Candidate | None:
    """torch.multiprocessing.spawn names the signal that ended a process; its number is the rank as most use it."""
    ended = SPAWNED.match(each.last.message) if each.last.name == "ProcessExitedException" else None
    if ended is None or ended["signal"] in ("SIGTERM", "SIGINT", "SIGABRT") or each.kind == "cause":
        return None
    return Candidate(
        cause="rank-died",
        confidence=0.75,
        standing="cause",
        moment=each.moment,
        summary=f"process {ended['index']} of torch.multiprocessing.spawn was ended by {ended['signal']}",
        ranks=(int(ended["index"]),),
        evidence=(each.line,),
        fix="Start it with PYTHONFAULTHANDLER=1 to see the Python line that it ended in; after SIGKILL look for the "
        "kernel's out-of-memory killer.",
        commands=(command("export PYTHONFAULTHANDLER=1"), command("sudo dmesg -T | grep -i -A1 'out of memory'")),
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


def ranks_text(ranks: list[int] | set[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ranges(ranks)
