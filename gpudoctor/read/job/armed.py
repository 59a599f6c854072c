"""Reads processes that `gpudoctor.arm()` has prepared: stacks they write themselves, and torch's worker server."""

import contextlib
import http.client
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from gpudoctor import crowded
from gpudoctor.knowledge.faulthandler_text import dumped_threads
from gpudoctor.read.job import inside
from gpudoctor.read.job.announced import ANNOUNCEMENT, descriptor_of, in_memory, is_ours, read_from, size_of
from gpudoctor.read.job.stacks import Stacks
from gpudoctor.read.process import catches, numbers_of, seen, tell
from gpudoctor.snapshot.evidence import Thread

STACKS_FILE = "/memfd:gpudoctor-stacks"
FOLDER = "gpudoctor-armed-"
SOCKET = "worker.sock"
BY = "faulthandler"
MAXIMUM_DUMP_BYTES = 1024 * 1024
EMPTIED_ABOVE_BYTES = 256 * 1024
"""A process that is asked again and again for days must not keep all of it in memory."""
MAXIMUM_RECORDER_BYTES = 64 * 1024 * 1024
LINES_SECONDS = 4.0
"""For the lines of 2,000 entries: a part of a second, and seconds where all processors are taken. Without them a rank
that keeps the GIL is told."""
QUIET_SECONDS = 0.06
"""faulthandler writes without a mark at the end: it is taken for done when nothing came for so long. It writes from the
signal handler, one thread after another, within a millisecond."""
OF_NCCL, OF_NCCL_WITH_LINES = "dump_nccl_trace_json", "dump_nccl_trace_pickle"
OF_AN_ENTRY = b"profiling_name"
"""Of the keys of an entry: a pickle holds each that it uses (torch FlightRecorder.hpp)."""
RECORDER_HANDLERS = (OF_NCCL, "fr_trace_json")
"""Of torch's worker server: for NCCL, in builds for CUDA (2.5 on); for what has no recorder of its own, as gloo (2.8
on). Each answers without entries in a job of the other (seen on an H200, torch 2.11)."""


class ArmedProcess(NamedTuple):
    """What a process has announced, checked as far as that can be."""

    pid: int
    signal: int = 0
    stacks: int = -1
    """The descriptor in that process to which the stacks are written."""
    socket: str = ""
    """As that process names it."""
    pipe: str = ""


class _Announced(Struct):
    version: int = 0
    pid: int = 0
    signal: int = 0
    stacks: int = -1
    socket: str = ""
    pipe: str = ""


def find(pid: int) -> ArmedProcess | None:
    """What `arm` has prepared in a process; None when it has not, or it cannot be seen. Never raises.

    /proc/PID/fd is open to the same user also where ptrace is not: Yama's ptrace_scope forbids to attach, not to look.
    """
    descriptor = descriptor_of(pid, ANNOUNCEMENT)
    if descriptor is None:
        return None
    try:
        raw = read_from(pid, descriptor, 4096, 0)
        announced = msgspec.json.decode(raw.strip(b"\0 "), type=_Announced)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if announced.pid not in _own_numbers(pid):  # inherited through a fork: its parent's
        return None
    number = announced.signal if announced.signal in _allowed() and catches(pid, announced.signal) else 0
    stacks_file = announced.stacks if is_ours(pid, announced.stacks, STACKS_FILE) else -1
    return ArmedProcess(pid, number if stacks_file >= 0 else 0, stacks_file, announced.socket, announced.pipe)


def stacks(pid: int, armed: ArmedProcess, timeout: float) -> Stacks:
    """Have the process write its stacks, and read them. Never raises.

    The signal interrupts what the main thread waits in for a moment; the kernel takes most calls up again by itself.
    """
    if not armed.signal:
        return Stacks(reason="gpudoctor.arm() found no free signal in it")
    process = seen(pid)
    if process is None or process.state in "ZX":
        return Stacks(reason="it has ended")
    if process.state in "Tt":
        return Stacks(reason="it is stopped, and cannot write its stacks")
    if process.state == "D":
        return Stacks(reason="it waits in the kernel, and cannot write its stacks")
    try:
        before = size_of(pid, armed.stacks)
        if not catches(pid, armed.signal) or not tell(process, armed.signal):
            return Stacks(reason="it cannot be sent a signal")
        raw = _what_is_new(pid, armed.stacks, before, timeout)
        _empty(pid, armed.stacks)
    except OSError as error:
        return Stacks(reason=f"what it wrote cannot be read: {error.strerror or error}")
    threads = read(raw.decode("utf-8", "replace"), pid)
    if not threads:
        return Stacks(reason=f"it wrote no stacks within {timeout:.0f} s of the signal")
    return Stacks(threads, BY)


def recorder_json(pid: int, armed: ArmedProcess, timeout: float) -> bytes | None:
    """What the flight recorder holds, as torch's worker server tells it (JSON, no frames); None: no answer.

    It needs no GIL.
    """
    return _recorder(pid, armed, time.monotonic() + timeout, RECORDER_HANDLERS)


def recorder_dump(pid: int, armed: ArmedProcess, timeout: float) -> bytes | None:
    """The same with the lines in which each was called (a pickle), where torch tells them in time: of NCCL's, and it
    takes the GIL for a moment. An answer without entries, or that there is no such handler, tells of the JSON too."""
    deadline = time.monotonic() + timeout
    handlers: Sequence[str] = RECORDER_HANDLERS
    with_lines = None
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        until = min(deadline, time.monotonic() + LINES_SECONDS * crowded.slowdown())
        with_lines = _ask(pid, armed.socket, OF_NCCL_WITH_LINES, until) if armed.socket else None
        if with_lines is not None and OF_AN_ENTRY in with_lines:
            return with_lines
        handlers = RECORDER_HANDLERS[1:]
    return _recorder(pid, armed, deadline, handlers) or with_lines


def _recorder(pid: int, armed: ArmedProcess, deadline: float, handlers: Sequence[str]) -> bytes | None:
    empty = None
    for handler in handlers if armed.socket else ():
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            answer = _ask(pid, armed.socket, handler, deadline)
            if answer is not None and _has_entries(answer):
                return answer
            empty = answer if empty is None else empty
    return empty


class _Dump(Struct):
    entries: list[msgspec.Raw] = []


def _has_entries(dump: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(dump, type=_Dump).entries)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


# ---------------------------------------------------------------- stacks


def read(text: str, pid: int) -> tuple[Thread, ...]:
    """The threads of what faulthandler wrote; the main thread is the last."""
    threads = dumped_threads(text)
    return tuple(
        Thread(
            id=pid if number == len(threads) - 1 else thread.address,
            name="MainThread" if number == len(threads) - 1 else thread.name,
            frames=thread.frames,
        )
        for number, thread in enumerate(threads)
    )


def _what_is_new(pid: int, descriptor: int, before: int, timeout: float) -> bytes:
    """What is written behind `before`, once nothing more comes."""
    deadline = time.monotonic() + timeout
    size, since = before, time.monotonic()
    while time.monotonic() < deadline:
        now = size_of(pid, descriptor)
        if now != size:
            size, since = now, time.monotonic()
        elif size != before and time.monotonic() - since > QUIET_SECONDS:
            break
        time.sleep(0.005)
    start = before if size >= before else 0  # another reader has emptied it
    return read_from(pid, descriptor, MAXIMUM_DUMP_BYTES, start)


def _empty(pid: int, descriptor: int) -> None:
    if size_of(pid, descriptor) > EMPTIED_ABOVE_BYTES:
        with contextlib.suppress(OSError), in_memory(pid, descriptor, os.O_WRONLY) as opened:
            os.ftruncate(opened, 0)


# ---------------------------------------------------------------- /proc


def _own_numbers(pid: int) -> tuple[int, ...]:
    """The number of a process in each PID namespace that it is in: ours, and that of its container."""
    return tuple(numbers_of(pid, "NSpid")) or (pid,)


def _allowed() -> Iterator[int]:
    """Signals that `arm` takes: no announcement may have another one sent."""
    if hasattr(signal, "SIGRTMIN"):
        yield from (int(signal.SIGUSR1), int(signal.SIGUSR2))
        yield from range(int(signal.SIGRTMIN), int(signal.SIGRTMAX) + 1)


# ---------------------------------------------------------------- the worker server


class _Connection(http.client.HTTPConnection):
    def __init__(self, connected: socket.socket, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.sock = connected


def _ask(pid: int, path: str, handler: str, deadline: float) -> bytes | None:
    """None where it is refused, as by a torch that has no such handler; raises `OSError` where it comes too late."""
    left = deadline - time.monotonic()
    if left <= 0.0:
        raise TimeoutError
    connected = _connect(pid, path, left)
    connection = _Connection(connected, left)
    try:
        # Closed afterwards: a connection that is kept open would delay the end of the job's server.
        connection.request("POST", f"/handler/{handler}", body=b"", headers={"Connection": "close"})
        response = connection.getresponse()
        if response.status != 200:
            return None
        body = bytearray()
        while time.monotonic() < deadline:
            piece = response.read1(1 << 20)
            if not piece:
                return bytes(body)
            body += piece
            if len(body) > MAXIMUM_RECORDER_BYTES:
                raise OSError("it tells too much")
        raise TimeoutError
    finally:
        connection.close()


def _connect(pid: int, path: str, timeout: float) -> socket.socket:
    """Connect to the socket that `arm` has made, by the name that the process has for it.

    To no other: its user's, in a private folder with the name of ours, on which that very process listens. The name is
    the process's word, and root could connect to anything.
    """
    folder, _, name = path.rpartition("/")
    if not path.startswith("/") or name != SOCKET or not folder.rpartition("/")[2].startswith(FOLDER):
        raise OSError("it is no socket of gpudoctor.arm()")
    user = inside.rights(pid).user
    with inside.found(pid, folder) as place:
        status = os.fstat(place)
        if status.st_uid != user or status.st_mode & 0o077:
            raise OSError("its folder is not private")
    with inside.found(pid, path, link=False) as place:
        status = os.fstat(place)
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != user:
            raise OSError("it is no socket of its user")
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(timeout)
            connected.connect(f"/proc/self/fd/{place}")
            listener = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if listener != pid:
                raise OSError("another process listens on it")
        except OSError:
            connected.close()
            raise
        return connected
