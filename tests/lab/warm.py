"""Python programs that begin with torch imported: forked from a server that has done it, once for all of a session.

    job = warm.start([sys.executable, str(script), "--healthy"], environment, stdout=log)      # a subprocess.Popen

`import torch` is nearly all that a rank of the lab costs. What others see of such a process is what they would see of
one that was started: its parent, session, command line, environment, files, namespaces and the stack above its main
module. torchrun is started so too, and gets its ranks the same way, as children of its own.

Where that cannot be (`available()` says so), with LD_PRELOAD, or for what is no Python program, it is a start as any
other. Each kind of launcher has at least one test in which it and its ranks are started truly.

This file runs by itself: the server and what is forked from it import nothing of gpudoctor or of the tests.
"""

import array
import atexit
import contextlib
import ctypes
import functools
import importlib
import io
import os
import pickle
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

PATIENCE = 300.0
"""Seconds for torch to be imported, on a crowded machine."""
LENGTH = struct.Struct("!I")
FILES = 3
SET_MM, SET_MM_MAP, SET_MM_MAP_SIZE = 35, 14, 15
MEMORY = struct.Struct("12QII")
"""struct prctl_mm_map"""
SET_CHILD_SUBREAPER = 36
FRAMES = "<frozen runpy>"
"""What stands below a program on its stack is Python's own as far as anybody sees, as after a true start."""
BEGIN = f"""
import sys
own = {{"__name__": "warm", "__file__": sys.argv[1]}}
exec(compile(open(sys.argv[1]).read(), "{FRAMES}", "exec"), own)
own["main"]()
"""
NAMESPACES = 0x40000000 | 0x00020000 | 0x04000000
"""CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUTS: a host of the lab."""
TRUE_STARTS = "GPUDOCTOR_LAB_TRUE_STARTS"
"""Set where every rank is to be started truly."""
libc = ctypes.CDLL(None, use_errno=True)


# ---------------------------------------------------------------- who wants a process


class Warm(subprocess.Popen[bytes]):
    """A process that the server forked, as a child of this one; without a server it is started as any other."""

    def __init__(
        self, words: Sequence[str], server: "Server | None" = None, inside: int | None = None, **options: Any
    ) -> None:
        self.server = server
        self.inside = inside
        super().__init__(words, **options)

    def _execute_child(self, *given: Any) -> None:
        """The arguments are those of `subprocess.Popen`'s own, whose order all its versions share."""
        if self.server is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        words, cwd, environment, pipes = given[0], given[5], given[6], given[10:16]
        ends = (pipes[0], pipes[3], pipes[5])
        self.pid = self.server.fork(
            words=[os.fspath(word) for word in words],
            environment=dict(environment),
            folder=os.fspath(cwd or Path.cwd()),
            session=bool(given[21]),
            files=[own if file == -1 else file for own, file in enumerate(ends)],
            inside=self.inside,
        )
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class Server:
    """The end of the line to it."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line

    def fork(self, *, files: Sequence[int], inside: int | None, **request: Any) -> int:
        """A process of our own, by its id. `inside`: a process whose host it is to be on."""
        place = os.pidfd_open(inside) if inside is not None else None
        prctl(SET_CHILD_SUBREAPER, 1)  # the child of a child that ends becomes ours
        try:
            text = pickle.dumps({**request, "moves": place is not None, "parent": os.getpid()})
            rights = array.array("i", [*files, *(() if place is None else (place,))])
            self.line.sendmsg([LENGTH.pack(len(text))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            self.line.sendall(text)
            (pid,) = LENGTH.unpack(self.line.recv(LENGTH.size, socket.MSG_WAITALL))
        finally:
            prctl(SET_CHILD_SUBREAPER, 0)
            if place is not None:
                os.close(place)
        return int(pid)


def start(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    inside: int | None = None,
    instead: Sequence[str] | None = None,
    truly: bool = False,
    **files: Any,
) -> "subprocess.Popen[bytes]":
    """A command in a session of its own: a fork, where it can be one and is not to be started `truly`.

    `inside` is a process of the host of the lab where the fork is to be, `instead` the command that starts it there.
    """
    server = None if truly or not can_be(words, env) else the_server()
    return Warm(words if server else instead or words, server, inside, env=env, start_new_session=True, **files)


def of_torchrun() -> dict[str, str]:
    """The environment in which a torchrun that somebody else starts has its ranks forked."""
    return {"PYTHONPATH": str(Path(__file__).parent / "torchruns")} if available() else {}


def run_to_its_end(
    words: Sequence[str], *, env: Mapping[str, str], timeout: float, truly: bool = False
) -> "subprocess.CompletedProcess[bytes]":
    """As `subprocess.run` with `capture_output`."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(words, env=env, truly=truly, **pipes) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def can_be(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether this command can be a fork."""
    return words[0] == sys.executable and "LD_PRELOAD" not in environment and available()


@functools.cache
def available() -> bool:
    """Whether a process may have another command line and environment here."""
    if sys.platform != "linux" or TRUE_STARTS in os.environ or not hasattr(os, "pidfd_open"):
        return False
    size = ctypes.c_uint()
    return libc.prctl(SET_MM, SET_MM_MAP_SIZE, ctypes.byref(size), 0, 0) == 0 and size.value == MEMORY.size


@functools.cache
def the_server() -> Server:
    """One for this process, which ends with it."""
    ours, its = socket.socketpair()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, __file__, str(its.fileno())],
        stdin=subprocess.DEVNULL,
        env=environment,
        pass_fds=[its.fileno()],
        start_new_session=True,
    )
    its.close()
    ours.settimeout(PATIENCE)
    assert ours.recv(1) == b".", f"no torch: {process.wait(5)}"

    def end() -> None:
        ours.close()
        process.wait(PATIENCE)

    atexit.register(end)
    return Server(ours)


# ---------------------------------------------------------------- the server, and what is forked from it


def serve(line: socket.socket) -> dict[str, Any] | None:
    """Fork whatever is asked for. Returns in each such process, with what it is to be; None: nobody asks any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        header, ancillary, *_ = line.recvmsg(LENGTH.size, socket.CMSG_SPACE(4 * (FILES + 1)), socket.MSG_WAITALL)
        if len(header) < LENGTH.size:
            return None
        files = array.array("i")
        for _, _, rights in ancillary:
            files.frombytes(rights)
        (length,) = LENGTH.unpack(header)
        request: dict[str, Any] = pickle.loads(line.recv(length, socket.MSG_WAITALL))  # noqa: S301 - our own
        request["files"] = list(files)
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)  # and who asked is the parent
            while os.getppid() != request["parent"]:
                os.sched_yield()
            line.sendall(LENGTH.pack(os.getpid()))
            line.close()
            return request
        os.waitpid(between, 0)
        for file in files:
            os.close(file)


def become(request: dict[str, Any]) -> list[str]:
    """What the request says, as others see it and as the program does. The rest of its command line."""
    words, environment, files = request["words"], request["environment"], request["files"]
    if request["session"]:
        os.setsid()
    place = files.pop() if request["moves"] else None
    if place is not None and libc.setns(place, NAMESPACES):
        raise OSError(ctypes.get_errno(), "setns")
    safe = [os.dup2(file, 100 + number) for number, file in enumerate(files)]
    for number, file in enumerate(safe):
        os.dup2(file, number)
    os.closerange(FILES, 1024)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(environment)
    show_to_others(words, environment)
    sys.orig_argv = list(words)
    sys.modules["warm"] = types.ModuleType("warm")  # for the lab's sitecustomize: this is one already
    if folders := [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder]:
        sys.path[1:1] = folders
        sys.modules.pop("sitecustomize", None)
        with contextlib.suppress(ImportError):
            importlib.import_module("sitecustomize")
    rest = list(words[1:])
    buffered = "PYTHONUNBUFFERED" not in environment
    while rest and rest[0] == "-u":
        buffered = False
        rest = rest[1:]
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
        stream: Any = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        text = io.TextIOWrapper(
            stream, errors="backslashreplace" if number == 2 else None,
            line_buffering=number == 2 or (number == 1 and os.isatty(1)), write_through=number > 0 and not buffered,
        )  # fmt: skip
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
    return rest


def show_to_others(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Command line and environment as /proc has them. The memory is never given back."""
    command, settings = (
        b"".join(os.fsencode(text) + b"\0" for text in texts)
        for texts in (words, [f"{name}={value}" for name, value in environment.items()])
    )
    libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
    area = libc.mmap(None, ctypes.c_size_t(len(command) + len(settings) + 1), 3, 0x22, -1, ctypes.c_long(0))
    ctypes.memmove(area, command + settings, len(command) + len(settings))
    middle, end = area + len(command), area + len(command) + len(settings)
    fields = [int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1:]]
    code, stack, data = fields[22:24], fields[24], fields[41:44]  # 26, 27; 28; 45 to 47 in proc(5)
    layout = ctypes.create_string_buffer(
        MEMORY.pack(*code, *data, libc.sbrk(0), stack, area, middle, middle, end, 0, 0, 0xFFFFFFFF), MEMORY.size
    )
    prctl(SET_MM, SET_MM_MAP, ctypes.addressof(layout), MEMORY.size)


def prctl(option: int, *values: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(ctypes.c_int(option), *padded):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def run(rest: list[str]) -> None:
    """As `python` with these words would."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if rest[0] == "-m":
        sys.argv = rest[1:]
        sys.path[0] = str(Path.cwd())
        runpy._run_module_as_main(rest[1])  # type: ignore[attr-defined]
        return
    sys.argv = rest
    script = Path(rest[0])
    if script.is_dir():
        sys.path[0] = str(script)
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    sys.path[0] = str(script.resolve().parent)
    main.__dict__.update(__file__=str(script), __builtins__=__builtins__)
    exec(compile(script.read_bytes(), str(script), "exec"), main.__dict__)


def run_and_end(rest: list[str]) -> NoReturn:
    """To the end of the process. What C++ does at the end of a process is left out: it was not begun here."""
    status = 0
    try:
        run(rest)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if not isinstance(error.code, (int, type(None))):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename in (FRAMES, "<string>"):
            own = own.tb_next
        sys.excepthook(type(error), error, own)
        status = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)


def fork_ranks() -> None:
    """What torchrun needs: a server of its own for its ranks, which is forked before a thread is started."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    ours, its = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        show_to_others(["ranks of torchrun"], {})  # not a second torchrun
        live(its)
    its.close()

    def popen(self: object, args: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        streams = {"stdout": self._stdout, "stderr": self._stderr}  # type: ignore[attr-defined]
        if args[0] != sys.executable or "LD_PRELOAD" in env:
            return Warm(args, None, env=env, start_new_session=True, **streams)
        return Warm(args, Server(ours), env=env, start_new_session=True, **streams)

    subprocess_handler.SubprocessHandler._popen = popen  # type: ignore[method-assign]


def live(line: socket.socket) -> NoReturn:
    """Serve; and in what is forked, be the program."""
    request = serve(line)
    if request is None:
        os._exit(0)
    atexit._clear()
    try:
        rest = become(request)
        if "torch.distributed.run" in rest:
            fork_ranks()
    except BaseException:
        traceback.print_exc()
        os._exit(126)
    run_and_end(rest)


def load_torch() -> None:
    """And what torchrun and most ranks import after it. No thread may be there afterwards."""
    import gc

    import torch
    import torch.distributed
    import torch.distributed.run
    import torch.utils.data

    torch.set_num_threads(1)
    del sys.modules["torch.distributed.run"]  # which is run as __main__
    gc.collect()
    gc.freeze()


def main() -> None:
    load_torch()
    line = socket.socket(fileno=int(sys.argv[2]))
    line.sendall(b".")
    live(line)
