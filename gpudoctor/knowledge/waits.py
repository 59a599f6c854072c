"""What a thread waits for that is no other rank: a child, a queue, a lock, a file lock, a service, a signal.

The library that the program has asked says it: of several known functions on a stack, the outermost one below the
program's own frame, for `Pool.map` waits in a condition and means its workers. Where the program has called something
written in C, which leaves no frame, its line and what the kernel says of the thread do.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.knowledge import place_markers as known
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Frame, SourceContext, Thread


class OwnWait(NamedTuple):
    """What is waited for."""

    kind: str
    """Which cause speaks of it; the causes' rules say more ("pool" may be a dead worker)."""
    operation: str
    """As the program called it: "Pool.map", "Queue.get", "with self.lock"."""
    frame: Frame
    """The library's, or the program's own where that is the innermost."""
    polls: bool = False
    """It looks again and again: that its thread runs does not say that it gets on."""


class _Marker(NamedTuple):
    file: str
    functions: frozenset[str] | None
    kind: str
    title: str
    polls: bool = False


def _marks(kind: str, file: str, functions: str = "", title: str = "{}", *, polls: bool = False) -> _Marker:
    return _Marker(file, frozenset(functions.split()) or None, kind, title, polls)


SERVICE_PACKAGES = (
    "requests urllib3 httpx httpcore aiohttp botocore boto3 s3transfer pymysql psycopg psycopg2 redis pymongo "
    "wandb mlflow comet_ml neptune clearml grpc kafka google/cloud azure/core huggingface_hub websocket websockets"
)
"""Clients of services, by their folder."""

MARKERS: tuple[_Marker, ...] = (
    _marks("pool", "python/multiprocessing/pool.py", title="Pool.{}"),
    _marks("pool", "datasets/utils/py_utils.py", "iflatmap_unordered", "the processes of Dataset.map", polls=True),
    _marks("future", "python/concurrent/futures/_base.py", title="Future.{}"),
    _marks("future", "python/concurrent/futures/thread.py", "shutdown", "ThreadPoolExecutor.{}"),
    _marks("pool", "python/concurrent/futures/process.py", "shutdown", "ProcessPoolExecutor.{}"),
    _marks("process", "python/multiprocessing/process.py", "join", "Process.{}"),
    _marks("process", "python/multiprocessing/popen_fork.py", "wait poll", "Process.{}"),
    _marks("child", "python/subprocess.py", title="subprocess.{}", polls=True),
    _marks("queue", "python/multiprocessing/queues.py", "get put join", "multiprocessing.Queue.{}"),
    _marks("queue", "python/queue.py", "get put join", "queue.{}"),
    _marks("queue", "python/multiprocessing/connection.py", "recv recv_bytes send send_bytes", "Connection.{}"),
    _marks("process lock", "python/multiprocessing/synchronize.py", "__enter__ acquire", "multiprocessing.Lock"),
    _marks("thread", "python/multiprocessing/synchronize.py", "wait wait_for", "multiprocessing.{}"),
    _marks("thread", "python/threading.py", "join _wait_for_tstate_lock", "Thread.join"),
    _marks("thread", "python/threading.py", "wait wait_for", "threading.{}"),
    _marks("lock", "python/threading.py", "acquire __enter__", "threading.{}"),
    _marks("asyncio", "python/asyncio/", title="asyncio.{}"),
    _marks("rpc", "torch/distributed/rpc/", title="rpc.{}"),
    _marks("file lock", "filelock/", title="filelock.{}", polls=True),
    _marks("file lock", "portalocker/", title="portalocker.{}", polls=True),
    _marks("file lock", "fasteners/", title="fasteners.{}", polls=True),
    _marks("file lock", "torch/utils/file_baton.py", title="FileBaton.{}", polls=True),
    _marks("serves", "python/socketserver.py", "serve_forever", "serve_forever", polls=True),
    _marks("service", "python/urllib/request.py", title="urllib.{}"),
    _marks("service", "python/http/client.py", title="http.{}"),
    _marks("service", "python/logging/handlers.py", "send makeSocket createSocket", "logging.SocketHandler.{}"),
    _marks("service", "python/ftplib.py", title="ftplib.{}"),
    _marks("service", "python/smtplib.py", title="smtplib.{}"),
    _marks("service", "python/xmlrpc/client.py", title="xmlrpc.{}"),
    _marks("service", "python/ssl.py", "read recv send sendall do_handshake", "ssl.{}"),
    _marks("service", "python/socket.py", "create_connection getaddrinfo gethostbyname readinto", "socket.{}"),
    *(_marks("service", f"{folder}/", title=f"{folder.partition('/')[0]}.{{}}") for folder in SERVICE_PACKAGES.split()),
)
""" "python/" at the beginning stands for the folder of the standard library."""
_BY_FILE = {marker.file: [other for other in MARKERS if other.file == marker.file] for marker in MARKERS}

PIPE = "read of a pipe"
"""The operation where it need not be a child's."""
_DATABASE = lazy_re(r"\.(?:execute|executemany|executescript|commit)\(")
_SIGNALS = lazy_re(r"\b(?:pause|sigwait|sigwaitinfo|sigtimedwait)\(")
_SIGNAL_CALLS = ("pause", "rt_sigtimedwait", "rt_sigsuspend")
_SOCKET_CALLS = ("recvfrom(", "recvmsg(", "sendto(", "sendmsg(", "connect(", "accept(", "accept4(")
_SENDING = frozenset(("sk_stream_wait_memory", "sock_alloc_send_pskb", "unix_stream_sendmsg"))
_PIPE_WRITES = frozenset(("pipe_write", "anon_pipe_write", "fifo_pipe_write", "pipe_wait_writable"))
_ENTRIES_OF_LOCKS = (
    ("python/threading.py", "__enter__"),
    ("python/logging/__init__.py", "acquire"),
    ("python/importlib/_bootstrap.py", "acquire"),
)
"""Functions that do nothing but take a lock (CPython's sources, 3.8 to 3.14)."""
_TRIES_LOCK = lazy_re(r"\.acquire\(|^with ")


def wait_of(thread: Thread | None, user: Frame | None, sources: Sequence[SourceContext] = ()) -> OwnWait | None:
    """What a thread waits for, where that is known. `user`: its innermost frame of the program."""
    if thread is None or not thread.frames or user is None:
        return None
    python = [frame for frame in thread.frames if not frame.native]
    inner = python[: python.index(user)] if user in python else python
    if len(inner) > 1 and enters_lock(inner[0]):
        # Whatever a library does under it: it has not come to that yet.
        return OwnWait("lock", f"the lock of {inner[1].function}", inner[0])
    known_ones = [(frame, marker) for frame in reversed(inner) if (marker := _told_by(frame)) is not None]
    locks = (pair for pair in known_ones if pair[1].kind == "file lock")
    if known_ones:
        # A client of a service that waits for its lock of a cache has not asked the service yet.
        outermost = known_ones[0]
        frame, marker = next(locks, outermost) if outermost[1].kind == "service" else outermost
        return OwnWait(marker.kind, marker.title.format(_short(frame.function)), frame, marker.polls)
    if any(not known.is_standard_library(frame.file) for frame in inner):
        # A library's own call: the program's line does not say what it is, the kernel does.
        return _by_call(thread, inner[-1], "") if all(map(_is_plain, inner)) else None
    return _by_call(thread, inner[-1] if inner else user, _line(user, sources))


def enters_lock(frame: Frame) -> bool:
    """Whether a frame waits to be let into a lock: of a condition, of a handler of logging, of a module's import."""
    return any(
        known.normal(frame.file).endswith(file) and _short(frame.function) == function
        for file, function in _ENTRIES_OF_LOCKS
    )


def _is_plain(frame: Frame) -> bool:
    """Whether a frame is of the standard library or a package that is no framework: these wait for other ranks."""
    return known.is_standard_library(frame.file) or known.is_installed(frame.file)


def _told_by(frame: Frame) -> _Marker | None:
    """What a frame is known for; a wrapper of any function tells nothing."""
    marker = _marker(frame)
    return None if marker is not None and marker.functions is None and _short(frame.function) == "wrapper" else marker


def _marker(frame: Frame) -> _Marker | None:
    file, name = known.normal(frame.file), _short(frame.function)
    parts = file.split("/")
    for number in range(max(0, len(parts) - 5), len(parts)):
        end = "/".join(parts[number:])
        for marker in _BY_FILE.get(end, ()):
            if marker.functions is None or name in marker.functions:
                return marker
    for number in range(1, len(parts)):
        for length in (1, 2, 3):
            folder = "/".join(parts[number : number + length]) + "/"
            if number + length < len(parts) and folder in _BY_FILE:
                return _BY_FILE[folder][0]
    return None


def _short(function: str) -> str:
    return function.rpartition(".")[2]


def _line(user: Frame, sources: Sequence[SourceContext]) -> str:
    name = user.file.rpartition("/")[2]
    lines = (source.text for source in sources if source.line == user.line and source.file.rpartition("/")[2] == name)
    return next(lines, "")


def _by_call(thread: Thread, frame: Frame, text: str) -> OwnWait | None:
    """What is called from the innermost frame and has none of its own: by its line, and what the kernel says."""
    name = known.kernel_name(thread.waits_in)
    call = thread.syscall.strip()
    if _SIGNALS.search(text) or call.startswith(_SIGNAL_CALLS) or name in ("do_sigtimedwait", "sigsuspend"):
        return OwnWait("signal", _called(text, _SIGNALS) or "signal.pause", frame)
    if name in known.FILE_LOCKS or call.startswith("flock("):
        return OwnWait("file lock", "flock", frame)
    if _DATABASE.search(text) and known.sleeps(name, call):
        return OwnWait("file lock", "the lock of a database", frame, polls=True)
    if name in known.CHILDREN or call.startswith(("wait4(", "waitid(")):
        return OwnWait("child", "wait for a process", frame)
    if name in _PIPE_WRITES:
        return OwnWait("full pipe", "write to a pipe", frame)
    if name in known.PIPES:
        return OwnWait("child", PIPE, frame)
    if name in known.SOCKETS | _SENDING or call.startswith(_SOCKET_CALLS):
        return OwnWait("listens" if "accept" in name + call else "service", "a connection", frame)
    if (name in known.FUTEX or call.startswith("futex(")) and _TRIES_LOCK.search(text):
        return OwnWait("lock", text.partition(" as ")[0][:60], frame)
    return None


def _called(text: str, pattern: re.Pattern[str]) -> str:
    match = pattern.search(text)
    return f"signal.{match[0].rstrip('(')}" if match is not None else ""
