"""`gpudoctor run`: starts the command, attends it, and ends as it has ended."""

import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from gpudoctor.active import signal_name
from gpudoctor.armed import remove_leftovers
from gpudoctor.lazy import lazy_re
from gpudoctor.run import kept, last_resort
from gpudoctor.run.alone import Alone
from gpudoctor.run.arming import DUMPS, armed, without_token
from gpudoctor.run.attendant import Attendant
from gpudoctor.run.batch import nodes_of
from gpudoctor.run.beside import Beside
from gpudoctor.run.channels import Outlet, channels, part_of
from gpudoctor.run.end import AttemptSeen, EndTold, RunEnded
from gpudoctor.run.family import JobProcesses
from gpudoctor.run.kept import OUTPUT, SECOND
from gpudoctor.run.look import look_into
from gpudoctor.run.preflight import BeforeTold, Looking
from gpudoctor.run.record import RunRecord, RunWish
from gpudoctor.run.stall import StallTold, StallWatch, in_steps
from gpudoctor.run.start import OWN_FAILURE, CannotStart, end_as, start
from gpudoctor.run.steps import Steps
from gpudoctor.run.summary import StepsSeen, lines
from gpudoctor.run.unarmed import line as unarmed_line
from gpudoctor.run.use import NAME as USE, UseWritten
from gpudoctor.run.wait import Waiting, block
from gpudoctor.slow.attend import PaceWatch

FOUND = "found.json"
RUN = "run.json"
OWN_LINES = lazy_re(rb"(?m)^gpudoctor: .*\n")
"""In a file that both streams go to: they are not the command's."""
ASKING_TO_END = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


class AttendedRun:
    """One run, from its folder to its end."""

    def __init__(self, wish: RunWish, environment: Mapping[str, str]) -> None:
        self._wish, self._environment = wish, environment
        self._lost: list[str] = []
        self._kept = self._made()
        self._began = time.monotonic()
        self._record = RunRecord(
            command=tuple(map(_written, wish.command)),
            folder=_written(_here()),
            host=socket.gethostname(),
            pid=os.getpid(),
            started=time.time(),
        )
        self._pid = 0
        self._together = Alone()

    def _made(self) -> kept.Kept | None:
        try:
            return kept.make(self._wish.report, self._environment)
        except kept.NoFolder as error:
            self._lost.append(f"nothing is kept of this run: {error}; --report DIR keeps it elsewhere")
            self._say(self._lost[-1])  # now, for it can be ended and started anew
            return None

    def attend(self) -> NoReturn:
        """Never returns: it ends as the command has ended."""
        before = block()
        folder = self._kept.folder if self._kept is not None else None
        looking = self._looked_before(folder)
        self._began, self._record = time.monotonic(), msgspec.structs.replace(self._record, started=time.time())
        outlets = channels(captured=self._wish.log)
        self._write()
        attendant = Attendant(outlets, self._kept.folder if self._kept else None, self._kept.lock if self._kept else -1)
        if not attendant.lives:
            self._lost.append("no process could be started that keeps its output")
            outlets = tuple(channel for channel in outlets if channel.kind == "file")
        try:
            environment = without_token(armed(self._environment, folder) if self._wish.arm else self._environment)
            self._pid = start(self._wish.command, outlets, environment, before)
        except CannotStart as error:
            self._say(str(error))
            self._leave(attendant, outlets, error.status)
        for channel in outlets:
            if channel.writing >= 0:
                os.close(channel.writing)
        together = self._together
        if self._wish.preflight == "none":
            together = self._together = self._with_others(folder)
        together.started()
        last_resort.watch(self._pid, lambda: self._record.status, self._say)
        waiting = Waiting(self._pid, attendant, outlets)
        family = JobProcesses(self._pid, self._began)
        steps = Steps(family)
        stalls = self._stalls(outlets, steps)
        use = UseWritten(self._pid, self._kept.folder if self._kept else None, outlets)
        paces = None
        if self._wish.arm:
            paces = PaceWatch(
                self._pid,
                folder,
                self._say_between,
                together.invited,
                lambda: together.has_head,
                lambda: any(steps.counts()),
            )

        starts: list[AttemptSeen] = []

        def look() -> None:
            attendant.revive()
            family.look()
            if family.attempt > (starts[-1].number if starts else 0):
                starts.append(
                    AttemptSeen(number=family.attempt, seconds=time.monotonic() - self._began, said=kept.said(folder))
                )
            if together.look(family.seen_ended):
                with contextlib.suppress(OSError):
                    os.kill(self._pid, together.stop)
            steps.counts()
            if late := looking.told().lines:
                self._say_between([f"before the start: {line}" for line in late])
            if stalls is not None:
                stalls.look()
            if paces is not None:
                paces.look()

        beside = Beside(look)
        status = waiting.until_the_end(beside)
        if not beside.end():
            self._say(last_resort.NO_ANSWER)
            end_as(status)
        waiting.over()
        if beside.failed is not None:
            self._lost.append(f"it was not looked at until its end: {beside.failed!r}")
        looking.end()
        use.end()
        went = paces.end() if paces is not None else ()
        if stalls is not None:
            stalls.end()
        self._record = msgspec.structs.replace(
            self._record,
            status=status,
            seconds=time.monotonic() - self._began,
            signals=tuple(waiting.signals),
            ended=family.over(),
            attempts=tuple(starts),
            steps=steps.at,
        )
        if self._wish.arm and (unarmed := family.unarmed):
            self._lost.append(unarmed_line(unarmed))
        try:
            attendant.finish()
            while not attendant.drained(0.25) and not _asked_to_end():
                attendant.revive()
            if attendant.log_ended and self._kept is not None:
                self._lost.append(f"{self._kept.folder}: a part of the output is not kept: {kept.full()}")
            self._keep_files(outlets)
            if self._wish.arm:
                remove_leftovers()  # of ranks that a signal has ended
            self._write()  # other nodes send it
            together.end(self._ended(family, StallTold(), attendant), _asked_to_end)
            self._lost += together.missed()
            if self._kept is not None:
                kept.join_parts(self._kept.folder)
                with contextlib.suppress(OSError):  # there is something in it
                    (self._kept.folder / DUMPS).rmdir()
            self._write()
            left = family.left_behind if not status else ()  # DeepSpeed's runner ends with 0 then
            self._tell(attendant.in_line, left)
            if not status and not left:
                for line in went:
                    self._say(line)
                self._tell_used(StepsSeen(counts=steps.seen().counts) if went else steps.seen())
                if starts:
                    for line in self._looked_into(family, StallTold(), attendant).lines:
                        self._say(line)
            else:
                self._tell_why(family, stalls.stood if stalls is not None else StallTold(), attendant)
            together.close()
            attendant.part()
        except OSError as error:  # the end is the command's, whatever of ours fails behind it
            self._say(f"could not look at its end: {error}")
        end_as(status)

    def _looked_before(self, folder: Path | None) -> Looking:
        """The look before the start, which may go on beside the command. Does not return where that is not to start."""
        if self._wish.preflight != "none":
            self._together = self._with_others(folder)
        is_looked_at = self._together.is_second and not self._wish.stop_on_error
        preflight = "none" if is_looked_at else self._wish.preflight
        looking = Looking(self._wish.command, preflight, self._together.before)
        asked = looking.wait(_asked_to_end)
        first = BeforeTold() if asked else looking.told()
        for line in first.lines:
            self._say(f"before the start: {line}")
        stops = bool(first.errors) and self._wish.stop_on_error
        if stops:
            self._say("not started: it has an error (--stop-on-error)")
            self._together.not_started()
        if stops or asked:
            looking.end()
            self._together.close()
            end_as(-_last_asked[-1] if asked else OWN_FAILURE)
        return looking

    def _with_others(self, folder: Path | None) -> Alone:
        """Who speaks with the other nodes of the job, where it has any."""
        if nodes_of(self._wish.command, self._environment) < 2:
            # Tasks that were told no rank may be jobs of their own.
            is_rank = {"SLURM_STEP_ID", "RANK"} <= self._environment.keys() and self._wish.on_stall == "report"
            return Alone(is_second=is_rank and self._environment.get("SLURM_LOCALID", "0") != "0")
        from gpudoctor.run.together import Together  # here, for it loads much

        return Together(self._wish.command, self._environment, folder, self._say_between)

    def _stalls(self, found: Sequence[Outlet], steps: Steps) -> StallWatch | None:
        """Who looks when it does not get on."""
        if self._wish.stall == 0:
            return None
        folder = self._kept.folder if self._kept is not None else None
        return StallWatch(
            self._pid,
            folder,
            found,
            self._wish.stall,
            self._wish.on_stall,
            self._say_between,
            collectives=steps.counts,
            steps=lambda: steps.at,
            together=self._together,
        )

    def _say_between(self, lines: Sequence[str]) -> None:
        """While the command runs: it may have left the cursor in the middle of a line."""
        if not self._wish.quiet and os.isatty(2):
            _write(b"\n")
        for line in lines:
            self._say(line)

    def _leave(self, attendant: Attendant, found: Sequence[Outlet], status: int) -> NoReturn:
        for channel in found:
            if channel.writing >= 0:
                os.close(channel.writing)
        attendant.part()
        end_as(status)

    def _write(self) -> None:
        if self._kept is not None:
            record = msgspec.structs.replace(self._record, lost=tuple(self._lost))
            if not self._kept.write(RUN, msgspec.json.format(msgspec.json.encode(record))) and not self._lost:
                self._lost.append(f"{self._kept.folder}: {RUN} could not be written: {kept.full()}")

    def _keep_files(self, found: Sequence[Outlet]) -> None:
        """What the command wrote into a file, beside what passed through the relay."""
        if self._kept is None or not self._wish.log:
            return
        for channel in found:
            if channel.kind == "file" and (said := part_of(channel)):
                name = OUTPUT if all(outlet.kind == "file" for outlet in found) and channel is found[0] else SECOND
                self._kept.write(name, OWN_LINES.sub(b"", said))

    def _tell(self, in_line: bool, left: Sequence[int] = ()) -> None:
        """Three lines at most where it has ended well. `left`: ranks that go on without what had started them."""
        if in_line and os.isatty(2):
            _write(b"\n")
        status, seconds = self._record.status or 0, self._record.seconds or 0.0
        how = (
            f"ended by {signal_name(-status)}"
            if status < 0
            else f"ended with exit status {status}"
            if status
            else f"ended with exit status 0, and rank{'' if len(left) == 1 else 's'} {', '.join(map(str, left[:8]))} "
            "of it still run, without what had started them"
            if left
            else "ended well"
        )
        what = "its output" if self._wish.log else "what was kept of it"
        where = f"; {what} is in {self._kept.folder}" if self._kept is not None else ""
        last = f"; it was last seen{in_steps(self._record.steps)}" if self._record.steps else ""
        self._say(f"{how} after {_duration(seconds)}{last}{where}")
        for lost in self._lost:
            self._say(lost)

    def _tell_used(self, steps: StepsSeen) -> None:
        """Of a training that has ended well."""
        try:
            use = (self._kept.folder / USE).read_bytes() if self._kept is not None else b""
        except OSError:
            use = b""
        for line in lines(steps, use):
            self._say(line)

    def _tell_why(self, family: JobProcesses, stood: StallTold, attendant: Attendant) -> None:
        """What killed it, in few lines; it is kept too."""
        together = self._together
        if together.is_kept_by_head:
            # srun writes what all nodes say into one: there the head's words are enough.
            alone = "SLURM_STEP_ID" not in self._environment
            if alone:
                self._say("what ended it is told by the node that keeps the report of all nodes")
            together.wait_for_head(_asked_to_end)
            for line in together.head_found if alone else ():
                self._say(line)
            return
        folder = self._kept.folder if self._kept is not None else None
        end_told = self._looked_into(family, stood, attendant)
        for line in (*end_told.lines, *(together.others_found() if end_told.cause is None else ())):
            self._say(line)
        together.told(end_told.lines)
        for line in together.summary():
            self._say(line)
        if folder is not None and end_told.cause is not None:
            more = (
                f"report {shlex.quote(str(folder))}"
                if together.others or end_told.variant is not None or not (folder / OUTPUT).exists()
                else f"explain {shlex.quote(str(folder / OUTPUT))}"
            )
            self._say(f"more: gpudoctor {more}")
        if self._kept is not None:
            self._kept.write(FOUND, msgspec.json.format(msgspec.json.encode(end_told)))
        together.wait_for_head(_asked_to_end)

    def _ended(self, family: JobProcesses, stood: StallTold, attendant: Attendant) -> RunEnded:
        """All that is known of its end."""
        folder = self._kept.folder if self._kept is not None else None
        gone = self._together.gone
        return RunEnded(
            status=self._record.status or 0,
            seconds=self._record.seconds or 0.0,
            signals=self._record.signals,
            pid=self._pid,
            began=self._began,
            pids=tuple(sorted(family.pids)),
            ended=tuple(sorted((*self._record.ended, *self._together.seen()), key=lambda death: death.seconds)),
            name=family.name or os.path.basename(_written(self._wish.command[0])),  # noqa: PTH119 - a word
            slurm_end=_number(self._environment.get("SLURM_JOB_END_TIME", "")),
            slurm_job=self._environment.get("SLURM_JOB_ID", ""),
            memory=family.memory_seen,
            cpu_limit=family.cpu_limit,
            stood=stood.lines,
            stood_cause=stood.cause if stood.confidence else "",
            stood_confidence=stood.confidence,
            reader_left=attendant.reader_left,
            log_ended=attendant.log_ended,
            folder=str(folder) if folder else "",
            logs=(*kept.logs(folder), *self._together.logs()) if folder is not None else (),
            attempts=self._record.attempts,
            nodes=self._together.nodes,
            elsewhere=self._together.elsewhere(),
            gone=tuple(node.name for node in gone),
            gone_seconds=gone[0].gone_at if gone else 0.0,
        )

    def _looked_into(self, family: JobProcesses, stood: StallTold, attendant: Attendant) -> EndTold:
        """What the look at the end finds."""
        ended = self._ended(family, stood, attendant)
        return look_into(ended, _asked_to_end, is_awaited=bool(self._together.others))

    def _say(self, text: str) -> None:
        if not self._wish.quiet:
            if not text.isprintable():
                from gpudoctor.render.words import safe  # here, for it loads much

                text = safe(text)
            _write(f"gpudoctor: {text}\n".encode("utf-8", "backslashreplace"))


def _write(text: bytes) -> None:
    """On standard error; it may be gone, or full."""
    try:
        os.write(2, text)
    except OSError:
        pass


def _asked_to_end(seconds: float = 0.0) -> bool:
    """Whether somebody wants us gone, who have nothing to do any more but to wait for a slow reader or to look."""
    asking = [getattr(signal, name) for name in ASKING_TO_END]
    arrived = signal.sigtimedwait(asking, seconds)
    if arrived is not None:
        _last_asked.append(arrived.si_signo)
    return arrived is not None


_last_asked: list[int] = []
"""Signals by which we were asked to end when there was no command to pass them on to."""


def _written(text: str) -> str:
    """A text of the command line, which may be no text: JSON holds texts."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _number(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0.0


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def run(wish: RunWish) -> NoReturn:
    """Run the command, and end as it ends."""
    if not sys.platform.startswith("linux"):
        from gpudoctor.errors import BadInput

        raise BadInput("run attends commands on Linux only")
    environment = dict(os.environ)
    AttendedRun(wish, environment).attend()
