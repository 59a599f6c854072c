"""Copies what the command writes to where it was going, and keeps a log of it: a process of its own.

Run by its path, with the standard library alone (`python -I -S relay.py ...`). It ends when everybody who can write has
gone, and not with the doctor: a doctor that is killed takes no pipe away from the job, and one whose relay is killed
starts another, for both hold the reading ends.

It stands in the command's process group, and says on `control` which signals have reached it: what it got too was sent
to the whole group or by the terminal, so the command has it, and the doctor forwards only what came to itself alone.
"""

import contextlib
import os
import signal
import stat
import sys
import threading
import time

HEAD = "output.log"
TAILS = ("output.tail-1", "output.tail-2")
READY, LOG_ENDED, LEFT, MIDDLE_OF_LINE, DRAINED = 0x80, 0x81, 0x90, 0xFE, 0xFF
"""What is said on `control` besides the numbers of signals, which are below 0x80. LEFT + n: the reader of channel n.
LOG_ENDED: its log could not be written any more."""
FINISH = b"F"
LITTLE_READ, MOST_READ = 1 << 16, 1 << 20
"""At once; so much where the last one was no line."""
LONGEST_PART = 1 << 13
"""Of a line that has not ended: so much waits for its end before it is logged."""
PAUSE_MS, LONG_PAUSE_MS, RECENT_SECONDS = 40, 100, 0.03
"""Lines that come faster than one in RECENT_SECONDS are passed on together, after a pause that no reader sees:
each time costs as much as ten lines. What comes alone, a prompt or a letter's echo, is passed on at once. The long one
is for a pipe or a file, behind which nobody types, and for LITTLE at a time, which fills no pipe meanwhile."""
LITTLE = 1 << 10
MUCH, MUCH_OF_TERMINAL, FLOOD_SECONDS = 1 << 12, 1 << 11, 0.25
"""So much at a time is no line by itself: whoever writes it is not held up, for so long. A pseudo-terminal holds 4,095
bytes, and then its writer waits."""
ANSWER_SECONDS, LOOK_MS = 5.0, 2500
"""The log's file system may be gone (a mount whose server is): who has waited for it for so long passes on without."""
NOT_HEARD = ("SIGKILL", "SIGSTOP", "SIGCHLD", "SIGPIPE", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
IGNORED = ("SIGTTOU", "SIGTTIN", "SIGPIPE")
"""A process in the background may then write to a terminal whose `stty tostop` is set."""


class BoundedLog:
    """The first and the last megabytes of what was written, in whole lines. A full disk ends it, and so does one that
    does not answer; nothing else."""

    def __init__(self, folder: str, size: int) -> None:
        self._folder, self._size = folder, size
        self._lock = threading.Lock()
        self._file, self._room, self._which = -1, size, -1
        self._left_out = 0
        self.failed = self.given_up = False
        if folder:
            with contextlib.suppress(OSError):
                self._file = os.open(os.path.join(folder, HEAD), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # noqa: PTH118
                self._room -= os.fstat(self._file).st_size

    def write(self, text: bytes) -> None:
        if self.given_up:
            return
        with self._lock:
            if self._file < 0 or not text:
                return
            try:
                while text:
                    if self._room <= 0:
                        self._next()
                    done = os.write(self._file, text[: self._room])
                    self._room -= done
                    text = text[done:]
            except OSError:
                self.failed = True
                self._close()

    def _next(self) -> None:
        """The older of the two tails begins anew."""
        self._which += 1
        name = os.path.join(self._folder, TAILS[self._which % 2])  # noqa: PTH118
        if self._which > 1:
            self._left_out += self._size
        os.close(self._file)
        self._file = -1
        self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._room = self._size

    def end(self) -> None:
        """One file of all that was kept."""
        if self.given_up:
            return
        with self._lock:
            self._close()
            if self._which < 0:
                return
            names = [TAILS[number % 2] for number in range(max(self._which - 1, 0), self._which + 1)]
            try:
                head = os.open(os.path.join(self._folder, HEAD), os.O_WRONLY | os.O_APPEND)  # noqa: PTH118
                try:
                    if self._left_out:
                        _write(head, b"\n[gpudoctor: %d bytes are left out here]\n" % self._left_out)
                    for name in names:
                        self._append(head, os.path.join(self._folder, name))  # noqa: PTH118
                finally:
                    os.close(head)
            except OSError:
                self.failed = True
            self._which = -1

    @staticmethod
    def _append(head: int, name: str) -> None:
        tail = os.open(name, os.O_RDONLY)
        try:
            while chunk := os.read(tail, 1 << 20):
                _write(head, chunk)
        finally:
            os.close(tail)
        os.unlink(name)  # noqa: PTH108

    def give_up(self) -> None:
        """Somebody stands in a write, and may stand there for ever: from now on nothing is kept."""
        self.failed = self.given_up = True

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Copying(threading.Thread):
    """One channel: what comes from `source` goes to `sink`, and into the log."""

    def __init__(self, number: int, source: int, sink: int, log: BoundedLog, control: int, first: bytes = b"") -> None:
        """`first`: what another one has read and not passed on."""
        super().__init__(daemon=True)
        self._first = first
        self.logs_since = 0.0
        """Since when it has stood in a write to the log; 0: it does not."""
        self.has_successor = False
        self._number, self._source, self._sink, self._log, self._control = number, source, sink, log, control
        self._woken, self._wake = os.pipe()
        self._part = b""
        self._last = b"\n"
        self._size = 0
        """Of what was read last."""
        self._deaf = False
        """Nobody reads what we write, and it is a terminal's fault: the command goes on."""
        self.drained = threading.Event()
        self.in_line = False

    def finish(self) -> None:
        """All that has been written is to be passed on; then `drained` is set."""
        with contextlib.suppress(OSError):
            os.write(self._wake, b"!")

    def successor(self) -> "Copying":
        """One that goes on in its place, without the log that it stands in."""
        self._log.give_up()
        self.has_successor = True
        return Copying(self._number, self._source, self._sink, self._log, self._control, self._first)

    def run(self) -> None:
        try:
            if self._first:
                _write(self._sink, self._first)
                self._first = b""
            self._copy()
        finally:
            self._log.write(self._part)
            self._part = b""
            self.in_line = self._last not in (b"\n", b"\r")
            self.drained.set()

    def _copy(self) -> None:
        import select

        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        if stat.S_ISFIFO(os.fstat(self._sink).st_mode):
            poll.register(self._sink, 0)  # its reader's leaving is told unasked
        pause = select.poll()
        pause.register(self._woken, select.POLLIN)
        longest, much = (PAUSE_MS, MUCH_OF_TERMINAL) if os.isatty(self._source) else (LONG_PAUSE_MS, MUCH)
        last = flooded = 0.0
        while True:
            events = poll.poll()
            now = time.monotonic()
            may_pause, last = now - last < RECENT_SECONDS and now - flooded > FLOOD_SECONDS, now
            if len(events) == 1 and events[0][0] == self._source:
                more = self._pass_on()
                while more == 1 and may_pause and self._size < much:
                    if pause.poll(longest if self._size < LITTLE else PAUSE_MS):
                        break
                    more, last = self._pass_on(), time.monotonic()
                if self._size >= much:
                    flooded = last
                if more == 0:
                    return
                continue
            told = dict(events)
            if self._source in told and not self._pass_on():
                return
            if self._woken in told:
                os.read(self._woken, 1)
                while (more := self._pass_on()) == 1:
                    pass
                if more == 0:
                    return
                self._log.write(self._part)
                self._part = b""
                self.in_line = self._last not in (b"\n", b"\r")
                self.drained.set()
            elif told.get(self._sink, 0) & (select.POLLERR | select.POLLNVAL):
                self._reader_left()
                return

    def _pass_on(self) -> int:
        """1: something was copied; 2: there is nothing now; 0: there will be nothing any more."""
        try:
            chunk = os.read(self._source, MOST_READ if self._size >= MUCH else LITTLE_READ)
        except BlockingIOError:
            return 2
        except OSError:  # a pseudo-terminal that nobody has open any more
            return 0
        if not chunk:
            return 0
        self._size = len(chunk)
        whole, self._last = self._part + chunk, chunk[-1:]
        cut = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        cut = len(whole) if len(whole) - cut > LONGEST_PART else cut
        self._part = whole[cut:]
        self._first, self.logs_since = chunk, time.monotonic()
        self._log.write(whole[:cut])  # first: it shall hold what the command said last
        self.logs_since = 0.0
        if self.has_successor:
            return 0
        self._first = b""
        if self._deaf:
            return 1
        try:
            _write(self._sink, chunk)
        except BrokenPipeError:
            self._reader_left()
            return 0
        except OSError:
            self._deaf = True
        return 1

    def _reader_left(self) -> None:
        """As without us: the command's next write meets a pipe that nobody reads."""
        os.close(self._source)
        with contextlib.suppress(OSError):
            os.write(self._control, bytes([LEFT + self._number]))


def _write(sink: int, text: bytes) -> None:
    """All of it. Somebody who shares the other end may have made it one that does not wait."""
    import select

    while text:
        try:
            text = text[os.write(sink, text) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(sink, select.POLLOUT)
            poll.poll()


def main(arguments: "list[str]") -> None:
    """FOLDER SIZE CONTROL SOURCE:SINK...; sinks are our own standard output and error."""
    folder, size, control = arguments[0], int(arguments[1]), int(arguments[2])
    pairs = [(int(source), int(sink)) for source, _, sink in (pair.partition(":") for pair in arguments[3:])]
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in {0, 1, 2} - {sink for _, sink in pairs}:
        os.dup2(nothing, number)  # else a pipe would not end where we live on
    log = BoundedLog(folder if pairs else "", size)
    channels = [Copying(number, source, sink, log, control) for number, (source, sink) in enumerate(pairs)]
    for channel in channels:  # before signals are let in: they are the main thread's
        channel.start()
    os.set_blocking(control, False)
    signal.set_wakeup_fd(control, warn_on_full_buffer=False)
    for number in signal.valid_signals() - {getattr(signal, name) for name in NOT_HEARD}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, lambda number, frame: None)
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with contextlib.suppress(OSError):  # the doctor has been killed meanwhile
        os.write(control, bytes([READY]))
    if _told_to_finish(control, channels):
        for channel in channels:
            channel.finish()
        while not all(channel.drained.wait(LOOK_MS / 1000) for channel in channels):
            for channel in _relieved(channels):
                channel.finish()
        log.end()
        with contextlib.suppress(OSError):
            os.write(control, bytes([LOG_ENDED]) if log.failed else b"")
            os.write(control, bytes([MIDDLE_OF_LINE if any(channel.in_line for channel in channels) else DRAINED]))
    for channel in channels:  # somebody may still have it open
        channel.join()
    log.end()


def _relieved(channels: "list[Copying]") -> "list[Copying]":
    """Those that go on for others which have stood in the log for long."""
    late = time.monotonic() - ANSWER_SECONDS
    stuck = [place for place, channel in enumerate(channels) if 0 < channel.logs_since < late]
    for place in stuck:
        channels[place] = channels[place].successor()
        channels[place].start()
    return [channels[place] for place in stuck]


def _told_to_finish(control: int, channels: "list[Copying]") -> bool:
    """Wait for it; False: the doctor is gone."""
    import select

    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        if not poll.poll(LOOK_MS):
            _relieved(channels)
            continue
        with contextlib.suppress(BlockingIOError):
            try:
                return os.read(control, 1) == FINISH
            except ConnectionError:
                return False


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:  # no word of Python's on the user's terminal
        os._exit(0)
