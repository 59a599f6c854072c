"""Runs what may hang or crash in child processes: bounded in time, in size, and ended with all their descendants.

A child's reply is whatever it wrote to its standard output until it ended or its deadline passed; what the
reply means is its caller's business. Used for NVML, libcuda, the readers of this machine, and the workers that
the training interpreter runs.
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple, Protocol

from gpudoctor import crowded, programs, threads
from gpudoctor.marked import MARK as MARK, messages as messages

MAXIMUM_REPLY_BYTES = 64 * 1024 * 1024
"""A child that writes more than this is not answering but flooding; it is ended."""
KEPT_ERROR_BYTES = 64 * 1024
MAXIMUM_LINE_BYTES = 64 * 1024
"""A longer line of a child whose lines are passed on is dropped: nothing that speaks to us writes one."""
GRACE_AFTER_KILL_SECONDS = 1.0
"""How long a killed child may take to vanish before it is reported as stuck in the kernel."""

Waiting = Callable[[Sequence[str]], None]
"""Called several times a second with the names of the children that have not ended yet."""
LOOK_SECONDS = 0.05
"""What children have said is looked at no more often, while they speak."""


class Awaited(list[str]):
    """Names of who is waited for, and until when at most (`time.monotonic`)."""

    def __init__(self, names: Iterable[str], until: float) -> None:
        super().__init__(names)
        self.until = until


class ChildReply(NamedTuple):
    """How a child ended, and what it said."""

    name: str
    output: bytes
    errors: str
    """The end of its standard error."""
    return_code: int | None
    """None when it was ended by us; negative when a signal ended it."""
    timed_out: bool
    stuck: bool
    """Still there after SIGKILL: it sleeps uninterruptibly in the kernel."""
    seconds: float
    pid: int
    is_pending: bool = False
    """It has not ended: what it owes may still come."""

    @property
    def missing_kind(self) -> Literal["timeout", "failed", "not-asked"]:
        """The `MissingKind` of a fact that this child owed."""
        return "not-asked" if self.is_pending else "timeout" if self.timed_out else "failed"

    @property
    def failure(self) -> str:
        """Why the reply may be incomplete, as a phrase; empty when the child ended well."""
        if self.is_pending:
            return "it is still being asked"
        if self.stuck:
            return f"no answer within {self.seconds:.0f} s; process {self.pid} hangs in the kernel and cannot be killed"
        if self.timed_out:
            return f"no answer within {self.seconds:.0f} s"
        if self.return_code is not None and self.return_code < 0:
            return f"the process was killed by {signal_name(-self.return_code)}"
        if self.return_code:
            last = self.errors.strip().splitlines()[-1:] or ["no message"]
            return f"the process failed with exit status {self.return_code}: {last[0][:300]}"
        return "it wrote more than 64 MiB" if self.return_code is None else ""


class Child:
    """A started child process. Every `Child` must be passed to `gather` or ended, by `end` or `end_all`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None,
        timeout: float,
        on_line: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name = name
        self._on_line = on_line
        self.timeout = timeout
        self._kept_waiting = 0.0
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=programs.environment(environment),
            cwd=programs.ELSEWHERE,
            start_new_session=True,
        )
        self.output = bytearray()
        self.errors = bytearray()
        self.flooded = False
        self.ended = False
        self.changed = threading.Event()
        """Set when a pipe closes or floods."""
        assert self.process.stdout is not None and self.process.stderr is not None
        # Threads and not a selector: pipes cannot be selected on Windows.
        self._readers = [
            threading.Thread(target=self._collect, args=(stream, sink), daemon=True)
            for stream, sink in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
        ]
        try:
            for reader in self._readers:
                threads.start(reader)
        except RuntimeError:  # no more threads: a limit of processes or memory
            self._kill()
            self.process.wait()
            for reader in self._readers:
                if reader.ident is not None:  # the one that did start
                    reader.join(0.2)
            for stream in (self.process.stdout, self.process.stderr):
                stream.close()
            raise OSError(
                errno.EAGAIN, "no thread can be started to read its answer (ulimit -u, -v, pids.max)"
            ) from None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def _collect(self, stream: IO[bytes], sink: bytearray) -> None:
        """Until nobody writes any more, which may be after `end`: who left the session of a child may hold its pipe."""
        with stream, contextlib.suppress(OSError, ValueError):  # the pipe was closed under us by `end`
            while chunk := os.read(stream.fileno(), 1 << 16):
                sink += chunk
                if sink is self.errors and len(sink) > KEPT_ERROR_BYTES:
                    del sink[:-KEPT_ERROR_BYTES]
                elif sink is self.output and self._on_line is not None:
                    self._pass_on(self._on_line)
                elif len(sink) > MAXIMUM_REPLY_BYTES:
                    self.flooded = True
                    break
        self.changed.set()

    def _pass_on(self, on_line: Callable[[bytes], None]) -> None:
        """Hand over the whole lines of the output, and keep the beginning of the next."""
        *lines, rest = bytes(self.output).split(b"\n")
        self.output[:] = rest if len(rest) <= MAXIMUM_LINE_BYTES else b""
        for line in lines:
            on_line(line)

    @property
    def deadline(self) -> float:
        """On time.monotonic's clock. What merely waited for a processor gets that time once more, within bounds."""
        return self.started + self.timeout + self._kept_waiting

    def is_over(self) -> bool:
        """It ended, flooded us, or its deadline has passed."""
        if self.process.poll() is not None or self.flooded:
            return True
        if (over := time.monotonic() >= self.deadline) and not self._kept_waiting:
            waited = crowded.kept_waiting(Path(f"/proc/{self.process.pid}/task"))
            self._kept_waiting = min(waited, self.timeout, crowded.MOST_SECONDS)
        return over and time.monotonic() >= self.deadline

    def so_far(self) -> ChildReply:
        """What it has said until now."""
        seconds = time.monotonic() - self.started
        return ChildReply(self.name, bytes(self.output), "", None, False, False, seconds, self.process.pid, True)

    def end(self) -> ChildReply:
        """Kill what is left of the child and its descendants, reap it, and say how it ended."""
        forget(self)
        own_end = self.process.poll()
        if own_end is not None:
            for reader in self._readers:  # what it wrote last; short, for descendants may keep the pipes open
                reader.join(0.2)
        seconds = time.monotonic() - self.started
        if not self.ended:  # only once: later the number may belong to somebody else
            self.ended = True
            # The group outlives its leader: descendants that the child left behind go with it.
            self._kill()
        stuck = False
        try:
            self.process.wait(GRACE_AFTER_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            stuck = True
            # Popen would warn about a running child when it is collected; nothing can end this one.
            self.process.returncode = -9
        for reader in self._readers:
            reader.join(0.2)
        if not any(reader.is_alive() for reader in self._readers):
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()
        return ChildReply(
            name=self.name,
            output=bytes(self.output),
            errors=bytes(self.errors).decode("utf-8", "replace"),
            return_code=own_end,
            timed_out=own_end is None and not self.flooded,
            stuck=stuck,
            seconds=seconds,
            pid=self.process.pid,
        )


def start(
    name: str,
    command: Sequence[str],
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[bytes], None] | None = None,
) -> Child:
    """Start a child in a session of its own. Raises `OSError` when the command cannot be run.

    With `on_line`, its output is not kept: each line goes to `on_line` as it comes, from a thread that reads nothing
    else meanwhile; it must not raise. Such a child may write for as long as it lives.
    """
    with signals_deferred():  # one that raised between fork and the next line would lose the child
        child = Child(name, command, environment=environment, timeout=timeout, on_line=on_line)
        keep(child)
    return child


class Endable(Protocol):
    """What must not outlive the command; ending it forgets it."""

    def end(self) -> object: ...


def keep(child: Endable) -> None:
    """Have `end_all` end it, should nobody else."""
    if child not in _living:
        _living.append(child)
        for children in getattr(_own, "children", ()):
            children.append(child)


def forget(child: Endable) -> None:
    """It has ended."""
    with contextlib.suppress(ValueError):  # before, perhaps by another thread
        _living.remove(child)


def end_all() -> None:
    """End every child that was started and not ended yet: the last thing a command does, however it ends."""
    with signals_deferred():  # a second Ctrl-C must not save the rest of them
        while _living:
            last = _living[-1]
            last.end()
            forget(last)


_living: list[Endable] = []
_own = threading.local()
"""What each `ending` of this thread has to end."""


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """End what this thread starts within it, and nobody else has ended: a program that calls us has other threads."""
    children: list[Endable] = []
    outer = getattr(_own, "children", ())
    _own.children = (*outer, children)
    try:
        yield
    finally:
        _own.children = outer
        with signals_deferred():
            for child in reversed(children):
                if child in _living:
                    child.end()
                    forget(child)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Hold back the signals that raise in the main thread, and deliver them at the end.

    Blocking them instead would be inherited by the children.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    # What is ignored stays so (nohup), for children inherit that; so does a handler that Python did not install.
    raising = {number: handler for number, handler in before.items() if callable(handler)}
    for number in raising:
        signal.signal(number, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in raising.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)


def own_module(module: str, *arguments: str) -> list[str]:
    """The command that runs `module.main(arguments)` of gpudoctor in a fresh doctor's interpreter.

    The working directory is taken off the module path first: a doctor that runs as root must not import what
    lies in the folder it was started in (`programs`; an agent's is a login's, or what srun was told).
    """
    root = str(Path(__file__).resolve().parent.parent)
    code = (
        "import sys; getattr(sys.flags, 'safe_path', False) or sys.path.pop(0); "
        f"sys.path.append({root!r}); from {module} import main; main(sys.argv[1:])"
    )
    return [sys.executable, "-c", code, *arguments]


def gather(
    children: Sequence[Child],
    waiting: Waiting | None = None,
    so_far: "Callable[[Mapping[str, ChildReply]], None] | None" = None,
) -> dict[str, ChildReply]:
    """Wait for all children, each until its own deadline, and end whatever is left. One reply a name.

    `so_far` is called with the replies until now, those of children that are still asked too, when there are more.
    On any exception, KeyboardInterrupt too, every child's process group is killed before it travels on.
    """
    pending = list(children)
    replies: dict[str, ChildReply] = {}
    said, looked = -1, 0.0
    try:
        while pending:
            for child in [child for child in pending if child.is_over()]:
                replies[child.name] = child.end()
                pending.remove(child)
            if pending:
                if waiting is not None:
                    until = max(child.deadline for child in pending)
                    waiting(Awaited((child.name for child in pending), until))
                if so_far is not None and time.monotonic() - looked >= LOOK_SECONDS:
                    much = sum(len(child.output) for child in children)
                    if much != said:
                        so_far({**replies, **{child.name: child.so_far() for child in pending}})
                        said, looked = much, time.monotonic()
                _pause(pending)
    finally:
        for child in pending:
            child.end()
    return replies


def _pause(pending: Sequence[Child]) -> None:
    """Sleep until something may have changed, at most 10 ms; 2 ms when a child is just ending."""
    closing = [child for child in pending if child.changed.is_set()]
    if closing:
        time.sleep(0.002)
    else:
        wait = min(child.deadline for child in pending) - time.monotonic()
        pending[0].changed.wait(max(0.0, min(0.01, wait)))


def signal_name(number: int) -> str:
    """ "SIGSEGV" for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def worker(python: str, name: str, *arguments: str) -> list[str]:
    """The command by which the interpreter `python` runs a script of `gpudoctor/workers`."""
    return [python, str(Path(__file__).resolve().parent / "workers"), name, *arguments]
