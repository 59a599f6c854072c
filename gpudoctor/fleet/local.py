"""`LocalFleet`: agents as child processes on this machine. One is the usual; several stand in for hosts in tests."""

import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpudoctor import programs
from gpudoctor.active import own_module
from gpudoctor.fleet.fleet import Fleet, Lost, Node
from gpudoctor.fleet.lines import CHUNK_BYTES, TooLong, lines_of, write_all

GRACE_SECONDS = 1.5
"""How long an agent may take to end after Bye before it is killed."""
KEPT_ERROR_BYTES = 4096


class LocalFleet(Fleet):
    """One agent a node, each named in `nodes` (by default this machine's hostname, once)."""

    how = "local"

    def __init__(
        self, nodes: Sequence[str | Node] | None = None, *, environment: Mapping[str, str] | None = None
    ) -> None:
        names = [socket.gethostname()] if nodes is None else nodes
        super().__init__([node if isinstance(node, Node) else Node(node) for node in names])
        self._agents: list[_Process] = []
        try:
            for index in range(len(self.nodes)):
                self._agents.append(_Process(self, index, environment))
        except BaseException:
            self.close()
            raise

    def write(self, line: bytes) -> None:
        for agent in self._agents:
            agent.write(line)

    def pid(self, node: int) -> int:
        """The agent's process."""
        return self._agents[node].process.pid

    def close(self) -> None:
        agents, self._agents = self._agents, []
        for agent in agents:
            agent.dismiss()
        deadline = time.monotonic() + GRACE_SECONDS
        for agent in agents:
            agent.end(deadline)


class _Process:
    """One agent: its process, a thread for each of its streams.

    It has a session of its own, so that Ctrl-C in a terminal reaches the head only, which then ends the agents in
    good order. When the head is killed, the agents end with their standard input.
    """

    def __init__(self, fleet: LocalFleet, index: int, environment: Mapping[str, str] | None) -> None:
        self._fleet = fleet
        self._index = index
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._errors = bytearray()
        self.process = subprocess.Popen(
            own_module("gpudoctor.fleet.agent", "--node", str(index)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=programs.environment(environment),
            cwd=programs.ELSEWHERE,
            start_new_session=True,
        )
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._write)]
        try:
            for thread in (self._error_reader, *self._threads):
                thread.start()
        except RuntimeError:  # no more threads: a limit of processes or memory
            self.process.kill()
            self.process.wait()
            raise

    def write(self, line: bytes) -> None:
        self._outgoing.put(line)

    def dismiss(self) -> None:
        """Close its standard input once everything is written, which ends it."""
        self._outgoing.put(None)

    def _write(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # it is gone: `_read` says so
            while (line := self._outgoing.get()) is not None:
                write_all(self.process.stdin.fileno(), line)
        with suppress(OSError):
            self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        detail = ""
        try:
            for line in lines_of(self.process.stdout.fileno()):
                self._fleet.heard(self._index, line)
                if self._fleet.is_over(self._index):
                    break
        except (OSError, ValueError):
            pass
        except TooLong as error:
            detail = str(error)
        self._fleet.connection_over(self._index, Lost("gpudoctor failed", detail or self._last_words()))

    def _last_words(self) -> str:
        self._error_reader.join(1.0)
        last = bytes(self._errors).decode("utf-8", "replace").strip().splitlines()[-1:]
        with suppress(subprocess.TimeoutExpired):
            status = self.process.wait(1.0)
            ending = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
            return f"{ending}: {last[0]}" if last else ending
        return last[0] if last else "it closed its output"

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with suppress(OSError, ValueError):
            while chunk := os.read(self.process.stderr.fileno(), CHUNK_BYTES):
                self._errors += chunk
                del self._errors[:-KEPT_ERROR_BYTES]

    def end(self, deadline: float) -> None:
        """Wait for its end until the deadline, then kill what is left of its process group."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, deadline - time.monotonic()))
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.dismiss()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)
        for thread in (self._error_reader, *self._threads):
            thread.join(0.2)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None and not any(thread.is_alive() for thread in (self._error_reader, self._threads[0])):
                stream.close()
