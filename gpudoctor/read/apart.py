"""A child process that reads what strangers wrote: one request at a time, bounded in time and memory.

    reader = Apart("gpudoctor.read.job.source_child", "source files")
    answer = reader.ask(b"...", seconds=2.0)        # raises NotAnswered, whose text says which bound was met
    reader.end()

A parser in C holds Python's lock for as long as it works, so no thread of ours could end it, and memory that it takes
is ours. In a child it costs its own answer only: the child is ended, and the next request gets a new one. The module's
`main` calls `serve`.
"""

import contextlib
import math
import os
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from gpudoctor import active, cost, crowded, programs

MEMORY = 512 * 1024 * 1024
"""Bytes that reading one thing may take."""
MOST_OF_AN_ANSWER = 64 * 1024 * 1024
START_SECONDS = 10.0
"""How long a new child may take to be there, on top of its first request's time: a machine under load."""
_REQUEST = struct.Struct("<Qd")
_ANSWER = struct.Struct("<QB")
_DONE, _FAILED = 0, 1


class NotAnswered(Exception):
    """Why there is no answer, as a phrase: which bound was met."""


class Apart:
    """The child of one kind of reading; started when first asked. For several threads, one after the other."""

    def __init__(self, module: str, what: str) -> None:
        self._command = active.own_module(module)
        self._what = what
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._over = False

    def ask(self, request: bytes, seconds: float, until: float = math.inf) -> bytes:
        """The child's answer to a request. Raises `NotAnswered` after `seconds`, which are more on a crowded machine
        (`crowded`; of processor time they are not) but not beyond `until` (of time.monotonic), and for whatever else
        goes wrong."""
        with self._lock:
            slowdown = crowded.slowdown()
            deadline = min(until, time.monotonic() + seconds * slowdown)
            try:
                if self._over:
                    raise NotAnswered("it was not read in time")
                if self._child is None:
                    self._child = self._started()
                    started_by = min(until, time.monotonic() + START_SECONDS * slowdown)
                    self._exchange(self._child, _REQUEST.pack(0, seconds), started_by)
                    deadline = min(until, time.monotonic() + seconds * slowdown)
                kind, answer = self._exchange(self._child, _REQUEST.pack(len(request), seconds) + request, deadline)
            except _Late:
                self._end()
                taken = (
                    "longer than there was time for" if time.monotonic() >= until else f"longer than {seconds:.3g} s"
                )
                raise NotAnswered(f"reading it took {taken}") from None
            except NotAnswered:
                self._end()
                raise
            except (OSError, ValueError, RuntimeError, MemoryError) as error:
                self._end()
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise NotAnswered(f"no process can be started to read {self._what}: {reason}") from None
        if kind == _FAILED:
            raise NotAnswered(answer.decode("utf-8", "replace"))
        return answer

    def end(self) -> None:
        """End the child; nothing is answered any more. For any thread, also while another one asks."""
        self._over = True
        self._kill()
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        with active.signals_deferred():
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=programs.environment(),
                cwd=programs.ELSEWHERE,
                start_new_session=True,
            )
            active.keep(self)
        assert child.stdin is not None and child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)
        os.set_blocking(child.stdout.fileno(), False)
        return child

    def _exchange(self, child: subprocess.Popen[bytes], request: bytes, deadline: float) -> tuple[int, bytes]:
        """Write a request and read its answer, both at once, until the deadline."""
        import select

        assert child.stdin is not None and child.stdout is not None
        into, out_of = child.stdin.fileno(), child.stdout.fileno()
        left = memoryview(request)
        answer = bytearray()
        poll = select.poll()
        poll.register(out_of, select.POLLIN)
        poll.register(into, select.POLLOUT)
        while True:
            patience = deadline - time.monotonic()
            if patience <= 0:
                raise _Late
            for descriptor, _ in poll.poll(min(patience, 1.0) * 1000):
                if descriptor == into:
                    with contextlib.suppress(BlockingIOError, BrokenPipeError):
                        left = left[os.write(into, left[: 1 << 20]) :]
                    if not left or child.poll() is not None:
                        poll.unregister(into)
                    continue
                with contextlib.suppress(BlockingIOError):
                    chunk = os.read(out_of, 1 << 20)
                    if not chunk:
                        raise NotAnswered(self._ending(child))
                    answer += chunk
            if len(answer) >= _ANSWER.size:
                length, kind = _ANSWER.unpack_from(answer)
                if length > MOST_OF_AN_ANSWER:
                    raise NotAnswered(f"its answer has more than {MOST_OF_AN_ANSWER >> 20} MiB")
                if len(answer) >= _ANSWER.size + length:
                    return kind, bytes(answer[_ANSWER.size :])

    def _ending(self, child: subprocess.Popen[bytes]) -> str:
        try:
            status = child.wait(1.0)
        except subprocess.TimeoutExpired:
            return "the process that read it gave no answer"
        if cost.killed_by_its_bound(status):
            return "reading it took too much processor time"
        if status < 0:
            return f"the process that read it was ended by {active.signal_name(-status)}"
        return f"the process that read it ended with status {status}: there may be too little memory to start one"

    def _kill(self) -> None:
        child = self._child
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)

    def _end(self) -> None:
        child = self._child
        if child is None:
            return
        self._kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(active.GRACE_AFTER_KILL_SECONDS)
        if child.returncode is None:
            child.returncode = -9  # it hangs in the kernel; Popen would warn about it when it is collected
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._child = None
        active.forget(self)


class _Late(Exception):
    pass


# ---------------------------------------------------------------- in the child


def serving(answer: Callable[[bytes], bytes]) -> Callable[[Sequence[str]], None]:
    """The entry point of a child that answers requests."""
    return lambda _arguments: serve(answer)


def serve(answer: Callable[[bytes], bytes], memory: int = MEMORY) -> None:
    """Answer the requests on standard input until it ends. Exceptions of `answer` become the reason of no answer."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    while header := taken(requests, _REQUEST.size):
        length, seconds = _REQUEST.unpack(header)
        cost.limit_child(seconds, memory)
        kind, said = _DONE, b""
        try:
            request = taken(requests, length)
            said = answer(request) if length else b""
            del request
        except MemoryError:
            kind, said = _FAILED, f"reading it takes more than {memory >> 20} MiB of memory".encode()
        except RecursionError:
            kind, said = _FAILED, b"it is nested too deeply"
        except Exception as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            kind, said = _FAILED, str(reason)[:500].encode("utf-8", "replace")
        whole = memoryview(_ANSWER.pack(len(said), kind) + said)
        while whole:
            whole = whole[os.write(answers, whole) :]


def taken(descriptor: int, length: int) -> bytes:
    """So many bytes; fewer where the file or the other end's part is at its end. Raises `OSError`."""
    found: list[bytes] = []
    while length > 0 and (chunk := os.read(descriptor, min(length, 1 << 20))):
        found.append(chunk)
        length -= len(chunk)
    return b"".join(found)


__all__: Sequence[str] = ("MEMORY", "Apart", "NotAnswered", "serve")
