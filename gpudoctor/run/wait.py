"""Waits for the command, and passes on every signal that came to the doctor alone.

The doctor blocks all signals and takes them one by one, with who sent them, and does nothing here that may stand in the
kernel: who looks does so beside (beside.py). It stands in the command's process group,
so what the terminal sends (Ctrl-C, Ctrl-\\, Ctrl-Z, a hangup), and what is sent to the group (`kill %1`, `timeout`,
scancel), has reached the command already; forwarding it would be a second Ctrl-C, on which torchrun leaves its ranks
behind. Only the kernel knows that a signal was for a whole group. So the relay, a member of the group that nobody
signals on purpose, says what it has heard too.
"""

import contextlib
import os
import signal
import time
from collections.abc import Sequence

from gpudoctor.read import process as processes
from gpudoctor.run.attendant import Attendant
from gpudoctor.run.beside import LOOK_SECONDS, MOST_SECONDS, YOUNG_SECONDS, Beside
from gpudoctor.run.channels import Outlet, resize
from gpudoctor.run.end import SignalSeen

SENT_BY_THE_KERNEL = 0x80
"""SI_KERNEL of <asm-generic/siginfo.h>: of a terminal, which tells its whole foreground group."""
STOP_SECONDS = 5.0
"""A command that stops so long after a stop signal has stopped for another reason."""
STOPPING = ("SIGTSTP", "SIGTTIN", "SIGTTOU")
MOST_SIGNALS = 100
OWN = ("SIGCHLD", "SIGPIPE")
"""Ours to have, whoever sends them."""


def block() -> set[int]:
    """From now on signals wait until they are asked for. What was blocked before."""
    return {*signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())}


class Waiting:
    """Of one command, from its start to its end."""

    def __init__(self, pid: int, attendant: Attendant, channels: Sequence[Outlet]) -> None:
        self._pid, self._attendant = pid, attendant
        self._terminals = [channel for channel in channels if channel.kind == "terminal"]
        self._stop: tuple[int, float] | None = None
        self._stopped = False
        self._began = time.monotonic()
        self.signals: list[SignalSeen] = []
        """That asked the job to end or spoke to it, in their order."""

    def until_the_end(self, beside: Beside) -> int:
        """The exit status, or less than 0: the signal that ended it. Nobody has waited for the process then."""
        every = signal.valid_signals()  # once: it makes an Enum of each
        while True:
            is_young = time.monotonic() - self._began < YOUNG_SECONDS
            arrived = signal.sigtimedwait(every, LOOK_SECONDS if is_young else MOST_SECONDS)
            self._attendant.listen()
            if arrived is not None:
                self._deal_with(arrived)
            status = self._looked_after()
            if status is not None:
                return status
            if arrived is None:
                beside.look()

    def over(self) -> None:
        """The process may go."""
        with contextlib.suppress(OSError):
            os.waitpid(self._pid, 0)

    def _looked_after(self) -> int | None:
        """How the command has ended; None: it has not. Stops with it."""
        with contextlib.suppress(ChildProcessError):  # it has ended
            while (told := os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)) is not None:
                self._stopped = told.si_code != os.CLD_CONTINUED
        # It stays the process of that number until `over`: who looks may be about to signal it.
        if (told := os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            return told.si_status if told.si_code == os.CLD_EXITED else -told.si_status
        if self._stopped and self._stop is not None:
            number, when = self._stop
            self._stop = None
            if time.monotonic() - when < STOP_SECONDS:
                stop_as(number)
                self._attendant.forget(signal.SIGCONT)
        return None

    def _deal_with(self, arrived: signal.struct_siginfo) -> None:
        number = arrived.si_signo
        if number in [getattr(signal, name) for name in OWN] or arrived.si_pid == os.getpid() > 0:
            return
        by_terminal = arrived.si_code == SENT_BY_THE_KERNEL
        if number in [getattr(signal, name) for name in STOPPING]:
            self._stop = number, time.monotonic()
        if number == signal.SIGWINCH:
            for channel in self._terminals:
                if resize(channel.outputs[0], channel.reading) and by_terminal:
                    self._send(number)  # it may have asked for the size before we told it
        elif number not in (signal.SIGCONT, signal.SIGTSTP) and arrived.si_pid != self._pid:
            self._note(arrived, by_terminal)
        if by_terminal and number != signal.SIGHUP:  # of one that hangs up, the leader of its session is told alone
            self._attendant.forget(number)
        elif arrived.si_pid != self._pid and not self._attendant.has_heard(number):
            self._send(number)

    def _note(self, arrived: signal.struct_siginfo, by_terminal: bool) -> None:
        if len(self.signals) < MOST_SIGNALS:
            pid = 0 if by_terminal else arrived.si_pid
            sender = processes.name_of(pid) if pid else ""
            seconds = time.monotonic() - self._began
            ignored = processes.all_ignore(self._pid, arrived.si_signo)
            self.signals.append(
                SignalSeen(
                    number=arrived.si_signo,
                    seconds=seconds,
                    by_terminal=by_terminal,
                    pid=pid,
                    sender=sender,
                    ignored=ignored,
                )
            )

    def _send(self, number: int) -> None:
        with contextlib.suppress(OSError):  # another user's by now: sudo
            os.kill(self._pid, number)


def stop_as(number: int) -> None:
    """Stop as the command has stopped, so that the shell takes the job for stopped; return when it is continued."""
    before = signal.getsignal(number)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])  # here we stop
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    with contextlib.suppress(TypeError):  # a handler that Python did not install
        signal.signal(number, before)
