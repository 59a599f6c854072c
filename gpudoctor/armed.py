"""`gpudoctor.arm()`: one line in a training script, after which a later hang can be read without ptrace's rights.

It costs nothing until `gpudoctor hang` asks: a signal on which the interpreter's own faulthandler writes all stacks
into a file in memory, also while native code holds the GIL, and, where this torch has it, torch's worker server on a
socket in a private folder, which tells what the flight recorder holds. What there is stands in another file in memory,
named "gpudoctor-armed", that `gpudoctor.read.job.armed` finds in /proc/PID/fd.
"""

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

ANNOUNCEMENT = "gpudoctor-armed"
STACKS = "gpudoctor-stacks"
VERSION = 1
FOLDER = "gpudoctor-armed-"
PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
COUNTS_AT = 4096
"""Where in the announcement the counts stand: collectives begun, groups (0: there are none yet), and its rank."""
STEP_AT = COUNTS_AT + 24
"""Behind them: the step that the program says it is in, plus one (0: it says none)."""
COUNT_SECONDS = 2.0
ERRORS = 2
"""The number of that level in c10."""
MOST_LEFTOVERS = 64
LEFTOVERS_SECONDS = 2.0
NEW_SECONDS = 60.0
"""A folder that is no older may just be being made."""
LONGEST_SOCKET_PATH = 100
"""Of 108 bytes that an address of AF_UNIX has (<linux/un.h>)."""


class Armed(NamedTuple):
    """What `arm` could prepare."""

    signal: int = 0
    """On which the stacks are written; 0: none was free, or this system has none."""
    socket: str = ""
    """Of torch's worker server; empty: torch was not imported yet, or has none (before 2.4), or is not there."""
    pipe: str = ""
    """Stem of the FIFOs on which NCCL's process group takes the order to dump its flight recorder; empty: not set."""


class _State:
    """Of this process; a forked child begins anew."""

    def __init__(self) -> None:
        self.pid = 0
        self.armed = Armed()
        self.announcement = -1
        self.stacks = -1
        self.folder = ""
        self.lock = -1
        """Of the folder: held as long as this process lives, however it ends."""
        self.served = False
        """Server and folder were prepared, or shall not be."""


_state = _State()
_hooked = False


def arm() -> Armed:
    """Prepare this process to be read when it hangs. Call it once torch is imported, before init_process_group.

    Harmless when called again, and where nothing can be prepared (macOS, Windows, no torch). Never raises, steals no
    signal's handler, and opens no port.
    """
    global _hooked
    if _state.pid != os.getpid():
        with contextlib.suppress(Exception):
            _start()
        if not _hooked:
            _hooked = True
            atexit.register(_at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_after_fork)
    with contextlib.suppress(Exception):  # torch may have been imported since
        _serve()
    return _state.armed


def _start() -> None:
    """Stacks, and the announcement."""
    _state.pid = os.getpid()
    _state.armed = Armed()
    if not hasattr(os, "memfd_create"):
        return
    _state.stacks = _file_in_memory(STACKS)
    number = _free_signal()
    if number:
        import faulthandler

        faulthandler.register(number, file=_state.stacks, all_threads=True, chain=False)
        _state.armed = _state.armed._replace(signal=number)
    _announce()


def _file_in_memory(name: str) -> int:
    import fcntl

    number = os.memfd_create(name)  # closed in programs that this one starts
    # Written at its end, wherever that is: the reader empties it now and then.
    fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_APPEND)
    return number


def count_collectives(seconds: float = COUNT_SECONDS) -> None:
    """From now on a thread puts down, every `seconds`, how many collectives this rank has begun over all its groups.

    It reads a number of each group (`getSequenceNumberForGroup`), which costs microseconds, and asks nobody: whoever
    watches the job sees that it gets on, and when it does not. `gpudoctor run` starts it; `arm` alone does not.
    """
    import threading

    threading.Thread(target=_count, args=(seconds,), name="gpudoctor-counts", daemon=True).start()


def step(number: int) -> None:
    """Say which step of the training this process is in: `gpudoctor run` tells it where the job stands still or ends.

    Eight bytes in memory, about a microsecond. Arms the process where that was not done. Never raises. For Lightning
    and transformers see `gpudoctor.callbacks`.
    """
    with contextlib.suppress(Exception):
        if _state.pid != os.getpid():
            arm()
        if _state.announcement >= 0:
            os.pwrite(_state.announcement, (int(number) + 1).to_bytes(8, "little"), STEP_AT)


def _count(seconds: float) -> None:
    import struct
    import threading
    import time

    comm = f"/proc/self/task/{threading.get_native_id()}/comm"
    with contextlib.suppress(OSError), open(comm, "wb") as file:  # noqa: PTH123
        file.write(b"gpudoctor-count")  # a name for the kernel too, as Python gives it from 3.14 on
    pid, there = os.getpid(), False
    while os.getpid() == pid and _state.announcement >= 0:
        with contextlib.suppress(Exception):
            world = sys.modules["torch.distributed.distributed_c10d"]._world
            groups = list(world.pg_map)
            begun = sum(int(group._get_sequence_number_for_group()) for group in groups)
            if groups:
                rank = sys.modules["torch.distributed"].get_rank()
                os.pwrite(_state.announcement, struct.pack("<QQq", begun, len(groups), rank), COUNTS_AT)
                there = True
        time.sleep(seconds if there else min(seconds, 0.25))


def _free_signal() -> int:
    """A signal that nobody handles and nobody is likely to take later; 0 where there is none.

    Real-time signals first: job schedulers send SIGUSR1 and SIGUSR2 to jobs, and trainers install handlers for those
    without a look at what is there.
    """
    caught = _mask("SigCgt") | _mask("SigIgn") | _mask("SigBlk")
    candidates: list[int] = []
    if hasattr(signal, "SIGRTMIN"):
        candidates += range(int(signal.SIGRTMIN) + 10, int(signal.SIGRTMAX) - 4)
    candidates += [int(getattr(signal, name)) for name in ("SIGUSR2", "SIGUSR1") if hasattr(signal, name)]
    return next((number for number in candidates if not caught >> (number - 1) & 1), 0)


def _mask(field: str) -> int:
    """A set of signals as /proc/self/status tells it: Python does not know of handlers that others installed."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        for line in file:
            name, _, value = line.partition(":")
            if name == field:
                return int(value, 16)
    return -1  # as if all were taken


def _announce() -> None:
    """Write what there is into the announcement, in one piece."""
    import json

    if _state.announcement < 0:
        _state.announcement = os.memfd_create(ANNOUNCEMENT)
    announcement = {
        "version": VERSION,
        "pid": _state.pid,
        "signal": _state.armed.signal,
        "stacks": _state.stacks,
        "socket": _state.armed.socket,
        "pipe": _state.armed.pipe,
    }
    # Padded: a shorter text must not leave the end of a longer one.
    os.pwrite(_state.announcement, json.dumps(announcement).encode().ljust(4096), 0)


def _serve() -> None:
    """torch's worker server and NCCL's pipe, in a private folder."""
    if _state.served or sys.modules.get("torch") is None or not sys.platform.startswith("linux"):
        return  # torch is not imported here: what the script sets before it does must keep its effect
    _state.served = True
    try:
        from torch._C._distributed_c10d import _WorkerServer  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        server_class = None
    else:
        server_class = _WorkerServer
    remove_leftovers()
    _state.folder = _private_folder()
    with contextlib.suppress(OSError):  # a file system without locks
        _state.lock = _locked(_state.folder, shared=True)
    if server_class is not None:
        path = f"{_state.folder}/worker.sock"
        with contextlib.suppress(Exception), _unheard():
            _keep_for_ever(server_class(path))
            _state.armed = _state.armed._replace(socket=path)
    if PIPE_VARIABLE not in os.environ and not _initialized():
        os.environ[PIPE_VARIABLE] = f"{_state.folder}/recorder"
        _state.armed = _state.armed._replace(pipe=f"{_state.folder}/recorder")
    if _state.announcement >= 0:
        _announce()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """torch's server says on every rank's terminal, as a warning, that it listens: not so here.

    c10's own threshold (c10/util/Logging.h, what TORCH_CPP_LOG_LEVEL sets) is lifted to errors for that moment. Where
    this torch has none by that name, the lines are printed.
    """
    level = None
    with contextlib.suppress(Exception):
        import ctypes

        loaded = ctypes.CDLL("libc10.so", mode=os.RTLD_NOLOAD)
        level = ctypes.c_int.in_dll(loaded, "FLAGS_caffe2_log_level")
    before = level.value if level is not None else 0
    if level is not None:
        level.value = max(before, ERRORS)
    try:
        yield
    finally:
        if level is not None:
            level.value = before


def _initialized() -> bool:
    distributed = sys.modules.get("torch.distributed")
    asked = (getattr(distributed, name, None) for name in ("is_available", "is_initialized"))
    return all(ask is not None and ask() for ask in asked)  # None: it is being imported


def _private_folder() -> str:
    """A new folder that only this user may enter."""
    import tempfile

    for parent in _parents():
        real = os.path.realpath(parent) if parent else ""
        if (
            real
            and len(os.fsencode(real)) + len(FOLDER) + 24 < LONGEST_SOCKET_PATH
            and os.access(real, os.W_OK | os.X_OK)
        ):
            with contextlib.suppress(OSError):
                return tempfile.mkdtemp(prefix=FOLDER, dir=real)
    raise OSError("no folder for the worker server's socket")


def _locked(folder: str, *, shared: bool) -> int:
    """A descriptor that holds the folder's lock. Raises `OSError` where somebody else does."""
    import fcntl

    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _parents() -> Iterator[str]:
    """One after the other: the second tries whether it can write, which a mount that is dead does not answer."""
    import tempfile

    yield os.environ.get("XDG_RUNTIME_DIR") or ""
    with contextlib.suppress(OSError):  # nowhere may be written: a read-only machine, full disks
        yield tempfile.gettempdir()
    yield "/tmp"


def remove_leftovers() -> None:
    """Folders of this user's processes that were killed, as far as that is done in a moment: TMPDIR may be dead."""
    import threading

    with contextlib.suppress(RuntimeError):  # no thread may be started
        removing = threading.Thread(target=_remove_leftovers, daemon=True)
        removing.start()
        removing.join(LEFTOVERS_SECONDS)


def _remove_leftovers() -> None:
    """Nobody holds their lock, or listens on their socket."""
    for parent in {*_parents()} - {""}:
        with contextlib.suppress(OSError):
            names = [entry.path for entry in os.scandir(parent) if entry.name.startswith(FOLDER)]
            for folder in names[:MOST_LEFTOVERS]:
                with contextlib.suppress(OSError):
                    if os.lstat(folder).st_uid == os.geteuid() and _is_left(folder):
                        _remove(folder)


def _is_left(folder: str) -> bool:
    """Raises `OSError` where somebody holds its lock."""
    import socket
    import time

    lock = _locked(folder, shared=False)
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(0.2)
            probe.connect(f"{folder}/worker.sock")
    except ConnectionRefusedError:
        return True
    except FileNotFoundError:
        return time.time() - os.fstat(lock).st_mtime > NEW_SECONDS
    finally:
        os.close(lock)
    return False


def _remove(folder: str) -> None:
    """A folder of ours: a socket and FIFOs. Nothing below it is followed."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106


def _at_exit() -> None:
    if _state.pid != os.getpid():  # a forked child that ends as a program: the folder is its parent's
        return
    if _state.folder:
        _remove(_state.folder)
    if _state.armed.pipe and os.environ.get(PIPE_VARIABLE) == _state.armed.pipe:
        del os.environ[PIPE_VARIABLE]


def _after_fork() -> None:
    """A forked child (a data loader worker) has files in memory of its own; the server and folder stay its parent's."""
    global _state
    before, _state = _state, _State()
    with contextlib.suppress(Exception):
        for number in (before.announcement, before.stacks, before.lock):
            if number >= 0:
                os.close(number)
        if before.pid and before.armed.signal:
            import faulthandler

            faulthandler.unregister(before.armed.signal)
        _start()
        _state.served = True  # no server of its own


def _keep_for_ever(server: Any) -> None:
    """One reference too many. Shut down or taken apart at the end, the server waits for its thread, which a forked
    child has not, and which goes on where it had not come to its loop by then (httplib's stop does nothing then): a
    script that ends at once would hang."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
