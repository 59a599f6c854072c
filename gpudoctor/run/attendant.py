"""The doctor's side of the relay: starts it, hears from it, and starts another where it was killed."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from gpudoctor import programs
from gpudoctor.run import relay
from gpudoctor.run.channels import Outlet

KEPT_BYTES = 4 * 1024 * 1024
"""The first so many of what is said, and twice as many of the last."""
MOST_RELAYS = 5
HEARD_SECONDS = 0.03
"""A signal for the whole group reaches all its processes within microseconds; one that kill sent to a list of processes
within a few milliseconds."""
START_SECONDS = 5.0


class Attendant:
    """The relay of a run. Signals must be blocked when it is made: the relay lets them in when it can hear them."""

    def __init__(self, channels: Sequence[Outlet], folder: Path | None, lock: int) -> None:
        self._channels = [channel for channel in channels if channel.reading >= 0]
        self._folder, self._lock = folder, lock
        self._started = 0
        self._ready = False
        self._heard: dict[int, int] = {}
        self.log_ended = False
        """What it kept is not all that was said: the disk is full, or the like."""
        self.reader_left = False
        self._drained: bool | None = None
        self._finishes = False
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._changing = threading.Lock()
        """Nobody who holds it waits for anything."""
        self.revive()

    def revive(self) -> None:
        """Start it, where there is none. Whoever listens meanwhile still hears the one before, until its end."""
        if (self._process is not None and self._process.poll() is None) or self._started >= MOST_RELAYS:
            return
        self._started += 1
        control, theirs = socket.socketpair()
        control.setblocking(False)
        folder = str(self._folder) if self._folder is not None else ""
        kept = [channel.reading for channel in self._channels] + ([self._lock] if self._lock >= 0 else [])
        process = None
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(Path(relay.__file__))),
                    *(folder, str(KEPT_BYTES), str(theirs.fileno())),
                    *(f"{channel.reading}:{channel.outputs[0]}" for channel in self._channels),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *kept),
                restore_signals=False,
                env=programs.environment(),
                cwd=programs.ELSEWHERE,
            )
        except (OSError, RuntimeError):
            pass
        finally:
            theirs.close()
        with self._changing:
            self._ready, self._process, self._control = False, process, control
        if self._finishes:
            self._tell_to_finish()

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def has_heard(self, number: int) -> bool:
        """Whether a signal that came to us came to the whole group."""
        if not self.lives:
            return False
        self._listen(0.0 if self._heard.get(number) else START_SECONDS if not self._ready else HEARD_SECONDS, number)
        if not self._heard.get(number):
            return False
        self._heard[number] -= 1
        return True

    def listen(self) -> None:
        """Take what it has said."""
        self._listen(0.0)

    def _listen(self, seconds: float, number: int = 0) -> None:
        """Until that signal was heard, or for so long; a relay that was not ready is given its time after that."""
        import select

        deadline = time.monotonic() + seconds
        while (control := self._control) is not None:
            poll = select.poll()
            poll.register(control, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return
            try:
                said = control.recv(4096)
            except BlockingIOError:
                continue
            except OSError:
                said = b""
            if not said:  # it is gone
                control.close()
                with self._changing:
                    if self._control is control:
                        self._control = None
                return
            for byte in said:
                self._take(byte)
                if byte == relay.READY:
                    deadline = min(deadline, time.monotonic() + HEARD_SECONDS)
            if (number and self._heard.get(number)) or self._drained is not None:
                deadline = 0.0

    def _take(self, byte: int) -> None:
        if byte == relay.READY:
            self._ready = True
        elif byte == relay.LOG_ENDED:
            self.log_ended = True
        elif byte in (relay.DRAINED, relay.MIDDLE_OF_LINE):
            self._drained = byte == relay.MIDDLE_OF_LINE
        elif byte >= relay.LEFT:
            self.reader_left = True
            with contextlib.suppress(OSError, IndexError):
                channel = self._channels[byte - relay.LEFT]
                os.close(channel.reading)
        else:
            self._heard[byte] = self._heard.get(byte, 0) + 1

    def forget(self, number: int) -> None:
        """What it has heard of a signal that we need not think about."""
        self._heard.pop(number, None)

    def finish(self) -> None:
        """Have all passed on that was written. `drained` tells when that is done."""
        self.revive()
        self._finishes = True
        self._tell_to_finish()

    def _tell_to_finish(self) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.send(relay.FINISH)

    def drained(self, seconds: float) -> bool:
        """Whether all has been passed on, or nobody is left to do it."""
        if self._drained is None:
            self._listen(seconds)
        return self._drained is not None or self._control is None

    @property
    def in_line(self) -> bool:
        """Whether the last thing written was no whole line."""
        return bool(self._drained)

    def part(self) -> None:
        """It may live on, for somebody may still write; it is nobody's child then."""
        if self._process is not None and self._process.returncode is None:
            self._process.poll()
            if self._process.returncode is None:
                self._process.returncode = 0  # Popen would warn about it when it is collected
