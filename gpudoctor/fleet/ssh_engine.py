"""Runs many ssh at once and talks to them: ClusterShell's engine in a thread of its own."""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from gpudoctor import programs
from gpudoctor.fleet.clustershell import unconfigured
from gpudoctor.fleet.lines import ArrivingLines, TooLong

with unconfigured():
    from ClusterShell.Event import EventHandler
    from ClusterShell.Task import task_self, task_terminate
    from ClusterShell.Worker.EngineClient import EngineClientEOF
    from ClusterShell.Worker.Ssh import SshClient, WorkerSsh
    from ClusterShell.Worker.Worker import FANOUT_UNLIMITED

KEPT_ERROR_BYTES = 8192
EXIT_SECONDS = 0.5
"""How long an ssh may take to exit after it closed its output: a lingering one must not hold up the others."""
NOT_STARTED = 255

Arrived = Callable[[int, bytes], bool]
"""Node, line; whether to go on listening to that node."""
Ended = Callable[[int, int, list[str]], None]
"""Node, exit status (negative: a signal's number), the last lines of standard error."""


class Client(SshClient):  # type: ignore[misc] # ClusterShell has no types
    """One ssh. Its key is the node's index."""

    worker: "Worker"

    def _start(self) -> "Client":
        self.errors = bytearray()
        self.lines = ArrivingLines()
        self.trouble = ""
        try:
            # Not ClusterShell's own Popen: this one gives ssh a session, so that Ctrl-C in a terminal is the head's.
            self.popen: subprocess.Popen[bytes] | None = subprocess.Popen(
                self.worker.commands[self.key],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=programs.environment(),
                cwd=programs.ELSEWHERE,
                start_new_session=True,
            )
        except OSError as error:  # no more processes or descriptors; the other nodes go on
            self.popen = None
            self.trouble = f"ssh cannot be started: {error.strerror or error}"
            read_end, write_end = os.pipe()
            os.close(write_end)  # an output that has ended
            self.streams.set_reader(self.worker.SNAME_STDOUT, read_end)
            return self
        self.worker.started_processes.append(self.popen)
        streams = (self.popen.stdin, self.popen.stdout, self.popen.stderr)
        # Descriptors of our own, which ClusterShell closes; Popen's file objects would close them a second time.
        inp, out, err = (os.dup(stream.fileno()) for stream in streams if stream is not None)
        for stream in streams:
            if stream is not None:
                stream.close()
        for descriptor in (inp, out, err):
            os.set_blocking(descriptor, False)
        self.streams.set_writer(self.worker.SNAME_STDIN, inp, retain=False)
        self.streams.set_reader(self.worker.SNAME_STDOUT, out)
        # Not retained: a connection master that the user's ssh left behind may hold it open for hours.
        self.streams.set_reader(self.worker.SNAME_STDERR, err, retain=False)
        return self

    def _handle_read(self, sname: str) -> None:
        chunk = self._read(sname)
        if sname == self.worker.SNAME_STDERR:
            self._keep(chunk)
            return
        try:
            complete = self.lines.feed(chunk)
        except TooLong as error:
            self.trouble = str(error)
            raise EngineClientEOF from None
        for line in complete:
            if not self.worker.arrived(self.key, line):
                raise EngineClientEOF  # who floods us is ended, and not read to its end

    def _flush_read(self, sname: str) -> None:
        """A last line without an end is no message."""

    def _keep(self, chunk: bytes) -> None:
        self.errors += chunk
        del self.errors[:-KEPT_ERROR_BYTES]

    def _close(self, abort: bool, timeout: bool) -> None:
        """Its output has ended, or it is to end."""
        status = NOT_STARTED
        if self.popen is not None:
            status = reap(self.popen, now=abort)
        stderr = self.streams.get(self.worker.SNAME_STDERR)
        if stderr is not None and stderr.fd is not None:
            with suppress(OSError):  # what it said last, which may not have been read before its output ended
                while chunk := os.read(stderr.fd, 1 << 16):
                    self._keep(chunk)
        self.streams.clear()
        self.invalidate()
        if self.trouble:
            self._keep(f"\n{self.trouble}\n".encode())
        self.worker.ended(self.key, status, self.errors.decode("utf-8", "replace").splitlines())
        self.worker._check_fini()


class Worker(WorkerSsh):  # type: ignore[misc]
    """All of them."""

    SHELL_CLASS = Client

    def __init__(self, commands: Sequence[Sequence[str]], arrived: Arrived, ended: Ended) -> None:
        self.commands = commands
        self.arrived = arrived
        self.ended = ended
        self.started_processes: list[subprocess.Popen[bytes]] = []
        super().__init__("", None, command="gpudoctor agent", stderr=True)
        self._fanout = FANOUT_UNLIMITED  # they all stay: a limit would keep the last ones from ever starting

    def _create_clients(self, **options: Any) -> None:
        # By index and not by name: names may be addresses or differ in their port only.
        self._clients = [Client(index, self.command, self, True, None) for index in range(len(self.commands))]


class Engine:
    """Starts a command a node, all at once; `arrived` and `ended` are called from its thread."""

    def __init__(self, commands: Sequence[Sequence[str]], arrived: Arrived, ended: Ended) -> None:
        self._open = set(range(len(commands)))
        self._report = ended
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._woken = threading.Event()
        self._ready = threading.Event()
        self._port: Any = None
        self._worker = Worker(commands, arrived, self._ended)
        self._thread = threading.Thread(target=self._run, name="ssh", daemon=True)
        self._thread.start()
        self._ready.wait()

    def write(self, line: bytes) -> None:
        """Send a line to all that are there."""
        self._order(lambda: self._worker.write(line))

    def close(self, grace: float, kill: float, *, begun: Collection[int]) -> None:
        """End them all: those that have `begun` get `grace` seconds to end by themselves, and then `kill` to vanish."""
        self._order(lambda: self._abort(lambda client: client.key not in begun))
        self._order(self._worker.set_write_eof)
        self._thread.join(grace)
        self._order(lambda: self._abort(lambda client: True))
        self._thread.join(kill)
        for process in self._worker.started_processes:  # none, unless the engine itself is stuck
            if process.returncode is None:
                reap(process, now=True)

    # in the engine's thread

    def _run(self) -> None:
        try:
            engine, task = self, task_self()

            class Orders(EventHandler):  # type: ignore[misc]
                def ev_msg(self, port: object, message: object) -> None:
                    engine._obey()

            self._port = task.port(Orders(), autoclose=True)
            task.schedule(self._worker)
            self._ready.set()
            task.resume()
        except Exception as error:  # a fault of the library or of ours must not look like a silent network
            for process in self._worker.started_processes:
                if process.returncode is None:
                    reap(process, now=True)
            for node in sorted(self._open):
                self._ended(node, NOT_STARTED, [f"internal error: {type(error).__name__}: {error}"])
        finally:
            self._ready.set()
            with suppress(Exception):
                task_terminate()

    def _ended(self, node: int, status: int, errors: list[str]) -> None:
        if node in self._open:
            self._open.discard(node)
            self._report(node, status, errors)

    def _order(self, order: Callable[[], None]) -> None:
        """Have something done in the engine's thread."""
        self._orders.put(order)
        # One message at a time: the port's queue is short, and putting into a full one blocks.
        if self._thread.is_alive() and not self._woken.is_set():
            self._woken.set()
            with suppress(OSError, KeyError, AttributeError):  # it has just ended
                self._port.msg_send(None)

    def _obey(self) -> None:
        self._woken.clear()
        with suppress(queue.Empty):
            while True:
                self._orders.get_nowait()()

    def _abort(self, chosen: Callable[[Client], bool]) -> None:
        for client in self._worker._engine_clients():
            if client.registered and chosen(client):
                client.abort()


def reap(process: "subprocess.Popen[bytes]", *, now: bool) -> int:
    """Wait for a process that should be ending, kill its session if it does not (or `now`); its exit status."""
    if not now:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(EXIT_SECONDS)
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        return process.wait(EXIT_SECONDS)
    return -int(signal.SIGKILL)
