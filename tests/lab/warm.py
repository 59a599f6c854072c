"""Python programs that begin with torch imported: forked from a server that has done it, once for all of a session.

    job = warm.start([sys.executable, str(script), "--healthy"], environment, stdout=log)      # a subprocess.Popen

`import torch` is nearly all that a rank of the lab costs, and Lightning and accelerate as much again. What others see
of such a process is what they would see of one that was started: its parent, session, command line, environment,
files, namespaces and the stack above its main module. torchrun is started so too, and gets its ranks the same way, as
children of its own.

A gpudoctor that is started so, and an agent of the lab's ssh (`by_others()`), has those of its children forked that
import torch; where a test itself is the doctor, the fixture `forks` does it, and forks each gpudoctor that the test
starts from a server that has gpudoctor imported too. So are the children of multiprocessing's spawn, and of Lightning,
in a program that starts such.

Where that cannot be (`available()` says so), with LD_PRELOAD and the like, or for what is no Python program, it is a
start as any other. Each kind of launcher has at least one test in which it and its ranks are started truly.

This file runs by itself: the server and what is forked from it import nothing of gpudoctor (unless they are one) or of
the tests.
"""

import array
import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import io
import multiprocessing.process
import os
import pickle
import pkgutil
import re
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

PATIENCE = 300.0
"""Seconds for torch to be imported, on a crowded machine."""
LENGTH = struct.Struct("!I")
FILES = 3
MOST_FILES = 32
"""Of one request: a child of spawn has its pipes too."""
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
READ_AT_THE_START = {
    name: os.environ.get(name)
    for name in (
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONWARNINGS", "TORCH_CPP_LOG_LEVEL"),
        *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    )
}
"""Variables that a fork comes too late for, as the server has them."""
DOOR = "GPUDOCTOR_LAB_DOOR"
"""Where the server hears whoever is no child of the tests (tests/lab/torchruns)."""
FRAMEWORKS = ("lightning", "accelerate")
DOCTOR = ("gpudoctor", "gpudoctor_checks")
"""All modules of these packages: what a gpudoctor imports when it is needed costs most of a short command."""
PLAIN_OPTIONS = frozenset(
    ("bufsize", "cwd", "encoding", "env", "errors", "start_new_session", "stderr", "stdin", "stdout", "text")
)
"""Of `subprocess.Popen`: others ask for more than a fork does."""
LAUNCHERS = ("torch.distributed.run", "accelerate.commands.launch", "torchrun", "accelerate")
SERVER = "server of the lab"
"""The command line of a server that is a fork; one is a child of every doctor that is one."""
TRUE_STARTS = "GPUDOCTOR_LAB_TRUE_STARTS"
"""Set where every rank is to be started truly."""
libc = ctypes.CDLL(None, use_errno=True)


# ---------------------------------------------------------------- who wants a process


class Warm(subprocess.Popen[bytes]):
    """A process that the server forked, as a child of this one; without a server it is started as any other."""

    def __init__(
        self,
        words: Sequence[str],
        server: "Server | None" = None,
        inside: int | None = None,
        kept: Sequence[int] = (),
        serves: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.server = server
        self.inside = inside
        self.kept = kept
        self.serves = serves
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
            environment=dict(os.environ if environment is None else environment),
            folder=os.fspath(cwd or Path.cwd()),
            session=bool(given[21]),
            files=[own if file == -1 else file for own, file in enumerate(ends)],
            inside=self.inside,
            kept=self.kept,
            serves=self.serves,
        )
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class Server:
    """The end of the line to it."""

    def __init__(self, line: socket.socket, door: str = "") -> None:
        self.line = line
        self.door = door
        self.lock = threading.Lock()
        self.read = read_by_python(os.environ)

    def fork(self, *, files: Sequence[int], inside: int | None = None, kept: Sequence[int] = (), **request: Any) -> int:
        """A process of our own, by its id. `inside`: a process whose host it is to be on; `kept`: files that it has
        by the numbers that they have here."""
        place = os.pidfd_open(inside) if inside is not None else None
        with self.lock:
            prctl(SET_CHILD_SUBREAPER, 1)  # the child of a child that ends becomes ours
            try:
                ask(
                    self.line, [*files, *kept, *(() if place is None else (place,))], moves=place is not None,
                    kept=list(kept), **request,
                )  # fmt: skip
                (pid,) = LENGTH.unpack(self.line.recv(LENGTH.size, socket.MSG_WAITALL))
            finally:
                prctl(SET_CHILD_SUBREAPER, 0)
                if place is not None:
                    os.close(place)
        return int(pid)


def reap_strays() -> None:
    """End for good the dead children of this process that nobody waits for: it gets what others' processes leave at
    the moment in which it takes a fork for its child, and who looks for dead ranks beside living ones finds them."""
    started = [each for each in gc.get_objects() if issubclass(type(each), subprocess.Popen)]  # a proxy may be dead
    awaited = {getattr(each, "pid", None) for each in started if getattr(each, "returncode", 0) is None}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread has ended
            for child in map(int, (task / "children").read_text().split()):
                state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
                if child not in awaited and state == "Z":
                    os.waitpid(child, os.WNOHANG)


def ask(line: socket.socket, files: Sequence[int], **request: Any) -> None:
    text = pickle.dumps({**request, "parent": os.getpid()})
    rights = array.array("i", files)
    line.sendmsg([LENGTH.pack(len(text))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    line.sendall(text)


def asked(line: socket.socket) -> dict[str, Any] | None:
    """The other end of it. None: nobody asks any more."""
    header, ancillary, *_ = line.recvmsg(LENGTH.size, socket.CMSG_SPACE(4 * MOST_FILES), socket.MSG_WAITALL)
    if len(header) < LENGTH.size:
        return None
    files = array.array("i")
    for _, _, rights in ancillary:
        files.frombytes(rights)
    (length,) = LENGTH.unpack(header)
    request: dict[str, Any] = pickle.loads(line.recv(length, socket.MSG_WAITALL))  # noqa: S301 - our own
    return {**request, "files": list(files)}


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
    server = None if truly or words[0] != sys.executable or not available() else server_for(env, words)
    return Warm(words if server else instead or words, server, inside, env=env, start_new_session=True, **files)


def of_torchrun() -> dict[str, str]:
    """The environment in which a torchrun that somebody else starts has its ranks forked."""
    return {"PYTHONPATH": str(Path(__file__).parent / "torchruns")} if available() else {}


def by_others(frameworks: bool = False) -> dict[str, str]:
    """The environment in which what somebody else starts is a fork, but for its parent: a torchrun, an agent, a script
    that imports torch. `frameworks`: scripts import Lightning and accelerate too."""
    return {**of_torchrun(), DOOR: the_server(modules=FRAMEWORKS * frameworks).door} if available() else {}


def run_to_its_end(
    words: Sequence[str], *, env: Mapping[str, str], timeout: float, truly: bool = False, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """As `subprocess.run` with `capture_output`, and no standard input."""
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(words, env=env, truly=truly, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def server_for(environment: Mapping[str, str], words: Sequence[str]) -> "Server | None":
    """The server with the torch of this environment, and with what these words name; None: there is none."""
    if suits(environment):
        return the_server(modules=FRAMEWORKS * speaks_of(words, *FRAMEWORKS))
    ours = {**environment, "PYTHONPATH": None, "LD_LIBRARY_PATH": READ_AT_THE_START["LD_LIBRARY_PATH"]}
    for site in environment.get("PYTHONPATH", "").split(os.pathsep):
        if (Path(site) / "torch/lib/libtorch_cuda.so").exists() and suits(ours):
            return the_server(site, environment.get("LD_LIBRARY_PATH", ""))
    return None


def suits(environment: Mapping[str, str | None]) -> bool:
    """Whether torch would be the one that is loaded here, and read what it has read here."""
    folders = (environment.get("PYTHONPATH") or "").split(os.pathsep)
    if any((Path(folder) / "torch").exists() for folder in folders if folder):
        return False
    return all(environment.get(name) == value for name, value in READ_AT_THE_START.items())


def speaks_of(words: Sequence[str], *names: str) -> bool:
    """Whether a command line, or a script that it runs, has one of these names in it."""
    texts = [*words[1:], script_of(words)]
    return any(name in text for name in names for text in texts)


def script_of(words: Sequence[str]) -> str:
    """The text of the script that a command line runs or has run; empty for none."""
    for word in words[1:]:
        if word.endswith(".py") and Path(word).name != "under_doctor.py":
            with contextlib.suppress(OSError):
                return Path(word).read_text(errors="replace")
    return ""


@functools.cache
def available() -> bool:
    """Whether a process may have another command line and environment here."""
    if sys.platform != "linux" or TRUE_STARTS in os.environ or not hasattr(os, "pidfd_open"):
        return False
    size = ctypes.c_uint()
    return libc.prctl(SET_MM, SET_MM_MAP_SIZE, ctypes.byref(size), 0, 0) == 0 and size.value == MEMORY.size


@functools.cache
def the_server(site: str = "", libraries: str = "", modules: tuple[str, ...] = ()) -> Server:
    """One for this process, which ends with it. `site`: where another torch lies, with what it is linked to; `modules`:
    what is imported besides."""
    from tests.lab.folders import own_folder  # here: a fork has no tests

    folder = own_folder("gpudoctor-warm-")
    ours, its = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as door, its:
        door.bind(f"{folder}/door")
        door.listen(64)
        ends = [its.fileno(), door.fileno()]
        process = with_more(the_server(site, libraries), modules, ends) if modules else begun(site, libraries, ends)
    ours.settimeout(PATIENCE)
    assert ours.recv(1) == b".", f"no torch: {process.wait(5)}"

    def end() -> None:
        ours.close()
        process.wait(PATIENCE)

    atexit.register(end)
    return Server(ours, f"{folder}/door")


def begun(site: str, libraries: str, ends: Sequence[int]) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if site:
        environment |= {"PYTHONPATH": site, "LD_LIBRARY_PATH": libraries}
    words = [sys.executable, "-c", BEGIN, __file__, *map(str, ends)]
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, env=environment, pass_fds=ends, start_new_session=True
    )  # fmt: skip


def with_more(server: Server, modules: Sequence[str], ends: Sequence[int]) -> "subprocess.Popen[bytes]":
    """A server that is a fork of another, with its own imports."""
    words = [sys.executable, SERVER]
    return Warm(words, server, kept=ends, serves=modules, stdin=subprocess.DEVNULL, start_new_session=True)


def read_by_python(environment: Mapping[str, str]) -> dict[str, str]:
    """What Python itself reads where it starts, and nowhere else."""
    late = ("PYTHONPATH", "PYTHONUNBUFFERED")
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LC_", "LANG")) and name not in late
    }


def hand_over(door: str) -> None:
    """Have a fork be what this process was to be, on this host and with these files, and end as it does. Returns where
    nobody opens."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(door)
            place = os.pidfd_open(os.getpid())
            ask(
                line, [0, 1, 2, place], moves=True, kept=[], words=sys.orig_argv, environment=dict(os.environ),
                folder=str(Path.cwd()), session=True,
            )  # fmt: skip
        except OSError:
            return
        show_to_others(["door of the lab"], {})  # there are no two of it
        nothing = os.open(os.devnull, os.O_RDWR)  # the end of what is written is the end of the fork
        for number in range(FILES):
            os.dup2(nothing, number)
        (status,) = struct.unpack("!i", line.recv(4, socket.MSG_WAITALL).ljust(4, b"\x7f"))
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status & 0xFF)


# ---------------------------------------------------------------- the server, and what is forked from it


def serve(line: socket.socket, door: socket.socket | None) -> dict[str, Any] | None:
    """Fork whatever is asked for. Returns in each such process, with what it is to be; None: nobody asks any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        ready, _, _ = select.select([line, *([door] if door else [])], [], [])
        if line not in ready:
            assert door is not None
            if request := let_in(line, door):
                return request
            continue
        request = asked(line)
        if request is None:
            return None
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)  # and who asked is the parent
            while os.getppid() != request["parent"]:
                if not Path(f"/proc/{request['parent']}").exists():
                    os._exit(0)  # killed meanwhile: nobody is left to ask for
                os.sched_yield()
            line.sendall(LENGTH.pack(os.getpid()))
            line.close()
            if door:
                door.close()
            return request
        os.waitpid(between, 0)
        for file in request["files"]:
            os.close(file)


def let_in(line: socket.socket, door: socket.socket) -> dict[str, Any] | None:
    """Fork for somebody who is no child of the tests, and have the fork's end told by its parent."""
    caller = door.accept()[0]
    if os.fork():
        caller.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return None
    line.close()
    door.close()
    request = asked(caller)
    if request is None:
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        caller.close()
        return request
    for file in request["files"]:
        os.close(file)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        caller.sendall(struct.pack("!i", status))
    os._exit(0)


def enter(request: dict[str, Any]) -> None:
    """The session, the host, the files and the folder of the request."""
    files = request["files"]
    if request["session"]:
        os.setsid()
    place = files.pop() if request["moves"] else None
    if place is not None and libc.setns(place, NAMESPACES):
        raise OSError(ctypes.get_errno(), "setns")
    numbers = [*range(FILES), *request["kept"]]
    safe = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in files]
    for number, file in zip(numbers, safe, strict=True):
        os.dup2(file, number)
    for number in {int(name) for name in os.listdir("/proc/self/fd")} - set(numbers):  # noqa: PTH208
        with contextlib.suppress(OSError):
            os.close(number)
    os.chdir(request["folder"])


def become(request: dict[str, Any]) -> list[str]:
    """What the request says, as others see it and as the program does. The rest of its command line."""
    words, environment = request["words"], request["environment"]
    os.environ.clear()
    os.environ.update(environment)
    show_to_others(words, environment)
    read_again()
    sys.orig_argv = list(words)
    multiprocessing.process.ORIGINAL_DIR = request["folder"]  # type: ignore[attr-defined]
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
    if rest[0] == "-c":
        sys.argv = ["-c", *rest[2:]]
        sys.path[0] = ""
        exec(compile(rest[1], "<string>", "exec"), main.__dict__)
        return
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


def fork_ranks(server: Server) -> None:
    """What torchrun needs: its ranks come from a server of its own, which was forked before it had threads."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    def popen(self: object, args: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        streams = {"stdout": self._stdout, "stderr": self._stderr}  # type: ignore[attr-defined]
        if args[0] != sys.executable or "LD_PRELOAD" in env:  # in all else they are as torchrun itself was started
            return Warm(args, None, env=env, start_new_session=True, **streams)
        return Warm(args, server, env=env, start_new_session=True, **streams)

    subprocess_handler.SubprocessHandler._popen = popen  # type: ignore[method-assign]


def fork_spawned(server: Server) -> None:
    """Children of multiprocessing's spawn, and those that Lightning starts of its own script, come from a server."""
    from multiprocessing import util

    truly = util.spawnv_passfds

    def forked(path: bytes, words: Sequence[str], files: Sequence[int]) -> int:
        words = [os.fsdecode(word) for word in words]
        if not any("spawn_main" in word for word in words) or len(files) + FILES > MOST_FILES:
            return truly(path, words, files)  # the tracker of resources
        plain = [sys.executable, *words[words.index("-c") :]]  # without options of the interpreter
        return server.fork(
            words=plain, environment=dict(os.environ), folder=str(Path.cwd()), session=False, files=[0, 1, 2],
            kept=list(files),
        )  # fmt: skip

    util.spawnv_passfds = forked  # type: ignore[assignment]
    subprocess.Popen = forking(server, Path(sys.argv[0]).name)  # type: ignore[assignment,misc]


def forking(server: "Server | Callable[[], Server]", script: str = "", doctors: bool = False) -> type[Warm]:
    """What stands for `subprocess.Popen` in a gpudoctor: its agents, and what imports torch, come from a server; and
    what runs this script. In a test (`doctors`) gpudoctor itself does."""

    class Child(Warm):
        def __init__(self, words: Sequence[str], **options: Any) -> None:
            environment = options.get("env") or os.environ
            chosen = None
            if doctors and words[0] == str(Path(sys.executable).with_name("gpudoctor")):
                words = [sys.executable, *words]  # as the kernel does
            if words[0] == sys.executable and len(words) > 1 and suits(environment):
                if better_forked(words) or (script and Path(words[1]).name == script):
                    chosen = server() if callable(server) else server
                elif doctors and is_doctor(words) and PLAIN_OPTIONS.issuperset(options):
                    chosen = the_server(modules=DOCTOR)
                    if read_by_python(environment) != chosen.read:
                        chosen = None
            super().__init__(words, chosen, **options)

    return Child


def is_doctor(words: Sequence[str]) -> bool:
    return [*words[1:3]] == ["-m", "gpudoctor"] or Path(words[1]).name == "gpudoctor"


def better_forked(words: Sequence[str]) -> bool:
    """Of what gpudoctor starts with its own interpreter, what is better a fork."""
    option, rest = (*words[1:3], "", "")[:2]
    if option == "-c":
        return rest.startswith("import sys; getattr(sys.flags") and "from gpudoctor." in rest  # agents and readers
    return "torch.distributed.run" in words or (Path(option).name == "workers" and rest != "python_facts")


def server_behind() -> Server:
    """A server for the children of this process, forked from it before it has threads."""
    ours, its = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        show_to_others([SERVER], {})  # not a second torchrun
        live(its)
    its.close()
    return Server(ours)


def live(line: socket.socket, door: socket.socket | None = None) -> NoReturn:
    """Serve; and in what is forked, be the program."""
    request = serve(line, door)
    if request is None:
        os._exit(0)
    atexit._clear()
    try:
        own_thread_pool()
        enter(request)
        words = request["words"]
        if request.get("serves"):
            serve_with(request["serves"], *(socket.socket(fileno=number) for number in request["kept"]))
        doctor = is_doctor(words) or (words[1] == "-c" and "gpudoctor.fleet.agent" in words[2])
        torchrun = not doctor and any(Path(word).name in LAUNCHERS for word in words[1:5])
        spawns = not torchrun and not doctor and words[1] != "-c" and speaks_of(words, "spawn", "lightning")
        # What a sitecustomize of the request does to torch, each of its children does for itself.
        server = server_behind() if torchrun or doctor or spawns else None
        rest = become(request)
        if server and torchrun:
            fork_ranks(server)
        elif server and spawns:
            sys.argv = rest
            fork_spawned(server)
        elif server:
            subprocess.Popen = forking(server)  # type: ignore[assignment,misc]
    except BaseException:
        traceback.print_exc()
        os._exit(126)
    run_and_end(rest)


def read_again() -> None:
    """What torch reads of the environment when it is imported, and only then: TORCH_DISTRIBUTED_DEBUG."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and hasattr(distributed, "set_debug_level_from_env"):
        distributed.set_debug_level_from_env()


def own_thread_pool() -> None:
    """ATen lets go of its pool after a fork and makes another for whom comes next. autograd's threads, one for each
    GPU, come at once, and who finds neither ends the process ("Invalid thread pool"): so it is made before there are
    threads."""
    import torch

    torch.set_num_threads(1)


def load_torch() -> None:
    """And what torchrun and most ranks import after it. No thread may be there afterwards."""
    import torch
    import torch._dynamo  # by the first optimizer, DDP or dump of a recorder: as long again as torch
    import torch.distributed
    import torch.distributed.run
    import torch.utils.data

    torch.set_num_threads(1)
    del sys.modules["torch.distributed.run"]  # which is run as __main__
    gc.collect()
    gc.freeze()


def serve_with(modules: Sequence[str], line: socket.socket, door: socket.socket) -> NoReturn:
    """Be a server with these modules, as far as they are there."""
    show_to_others([SERVER], {})
    for name in modules:
        with contextlib.suppress(ImportError):
            package = importlib.import_module(name)
            for found in pkgutil.walk_packages(package.__path__, f"{name}.") if modules == DOCTOR else ():
                if not re.search(r"\.(workers|testing|__main__)\b", found.name):
                    importlib.import_module(found.name)
    gc.collect()
    gc.freeze()
    line.sendall(b".")
    live(line, door)


def main() -> None:
    load_torch()
    line, door = (socket.socket(fileno=int(word)) for word in sys.argv[2:4])
    line.sendall(b".")
    live(line, door)
