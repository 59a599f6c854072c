"""The Python stacks of live processes, by the program py-spy, which reads their memory from outside.

Without `--native` it runs non-blocking: the process is not stopped for a moment, and a stack that changes while it is
read comes out cut short or not at all, in which case it is read again. One dump of a rank with torch takes 10 ms of
processor time (py-spy 0.4.3), so a program a process is fast enough; several run at once.
"""

import contextlib
import os
import sys
import sysconfig
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from gpudoctor import active, programs
from gpudoctor.knowledge.faulthandler_text import LONGEST_NAME, LONGEST_PATH, MOST_FRAMES, MOST_THREADS
from gpudoctor.knowledge.place_markers import drives_training
from gpudoctor.knowledge.places import is_user, main_of
from gpudoctor.lazy import lazy_re
from gpudoctor.read.job import attributes, engine, tensors
from gpudoctor.read.job.refusals import not_permitted
from gpudoctor.read.process import numbers_of, seen
from gpudoctor.snapshot.evidence import Frame, FrameVariables, Thread

BY = "py-spy"
TRIES = 3
"""Reads of one process: in non-blocking mode one of ten stacks that change fast comes out cut short [measured]."""
OUTERMOST = frozenset(("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "run"))
"""Where a thread's stack begins: a program, `python -m`, a thread's start. One that begins elsewhere was cut short,
or its interpreter is embedded in a program."""
MOST_TASKS = 4096
MOST_VARIABLES, MOST_FRAMES_WITH_VARIABLES, LONGEST_VALUE, MOST_OBJECTS = 64, 16, 128, 8
_RELEASE = lazy_re(r"/python3\.(\d{1,2})/")
_PROGRAM = lazy_re(r"python3\.(\d{1,2})$")
_NUMBER = lazy_re(r"-?(?:[0-9]{1,18}(?:\.[0-9]{1,18})?|inf)|True|False")
_SECRET = lazy_re(r"(?i:token|secret|passw|auth|cred|api_?key)")
_NUMBERS = lazy_re(r"[\[({][-0-9., :\[\](){}]*[\])}]")
"""Lists, tuples and dictionaries of numbers alone, as py-spy writes them: cut off where they are long."""
INSTALL = "py-spy is not installed; `{python} -m pip install py-spy` installs it"


class Stacks(NamedTuple):
    """What was read of one process."""

    threads: tuple[Thread, ...] = ()
    """With id, name, frames, owns_gil. The id is 0 where it is not told: a thread that is not the main one, of
    Python 3.10 or older."""
    by: str = ""
    """As `Sample.stacks_by`; empty when nothing was read."""
    reason: str = ""
    """Why nothing was read, as a phrase; empty when it was."""
    variables: tuple[FrameVariables, ...] = ()
    """Of the program's frames of the main thread, where they were asked for."""


def dump(pids: Sequence[int], *, timeout: float, native: bool = False, variables: bool = False) -> dict[int, Stacks]:
    """The stacks of these processes, each within `timeout` seconds from now; one answer a pid, never raises.

    `native` adds frames of C and C++, for which py-spy stops each process for some tenths of a second (it goes on also
    when py-spy is killed); where that fails, it is read without, as it is without `variables` where a first try with
    them fails. May be called in any thread.
    """
    wanted = list(dict.fromkeys(pid for pid in pids if pid > 0))
    program = find_program()
    if not program:
        return {pid: Stacks(reason=INSTALL.format(python=sys.executable)) for pid in wanted}
    return _Dumps(program, timeout, native, variables).of(wanted)


def find_program() -> str | None:
    """The py-spy of our own installation, else the one on the PATH."""
    name = "py-spy.exe" if os.name == "nt" else "py-spy"
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    if f"{os.name}_user" in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    for folder in folders:
        if folder and (program := programs.find(name, folder)):
            return program
    return programs.find("py-spy")


class _Try(NamedTuple):
    pid: int
    number: int
    native: bool
    child: active.Child


class _Dumps:
    """py-spy for several processes, a bounded number at once."""

    def __init__(self, program: str, timeout: float, native: bool, variables: bool) -> None:
        self.program = program
        self.native = native
        self.variables = variables
        self.deadline = time.monotonic() + timeout
        self.most = max(2, min(8, 2 * (os.cpu_count() or 1)))
        self.found: dict[int, Stacks] = {}

    def of(self, pids: Sequence[int]) -> dict[int, Stacks]:
        # A stopped process cannot be stopped once more: py-spy fails on it, and waits [measured].
        waiting = [(pid, 1, self.native and not _is_stopped(pid)) for pid in reversed(pids)]
        running: list[_Try] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.most:
                    self._start(waiting, running)
                for over in [attempt for attempt in running if attempt.child.is_over()]:
                    running.remove(over)
                    if again := self._take(over, over.child.end()):
                        waiting.append(again)
                if running:
                    running[0].child.changed.wait(0.002)
        finally:
            for attempt in running:
                attempt.child.end()
        return {pid: self.found.get(pid, Stacks(reason="not read")) for pid in pids}

    def _start(self, waiting: list[tuple[int, int, bool]], running: list[_Try]) -> None:
        pid, number, native = waiting.pop()
        left = self.deadline - time.monotonic()
        if left <= 0.0:
            self.found.setdefault(pid, Stacks(reason="there was no time left to read it"))
            return
        command = [self.program, "dump", "--json", "--pid", str(pid), "--native" if native else "--nonblocking"]
        command += ["--locals"] if self.variables and number == 1 else []
        try:
            child = active.start(f"py-spy {pid}", command, timeout=left)
        except OSError as error:
            self.found.setdefault(pid, Stacks(reason=f"{self.program} cannot be run: {error.strerror or error}"))
            return
        running.append(_Try(pid, number, native, child))

    def _take(self, attempt: _Try, reply: active.ChildReply) -> tuple[int, int, bool] | None:
        """Note what a try brought; what to try next, or None."""
        pid = attempt.pid
        again = (pid, attempt.number + 1, False) if attempt.number < TRIES else None
        if reply.return_code == 0:
            threads = read(reply.output, pid, _numbers_outside(pid))
            if threads:
                before = self.found.get(pid)
                if before is None or _depth(threads, pid) >= _depth(before.threads, pid):
                    held = variables_of(reply.output, pid, threads)
                    if not held and before is not None and _frames_of(before.threads, pid) == _frames_of(threads, pid):
                        held = before.variables
                    self.found[pid] = Stacks(threads, BY, variables=held)
                return again if _cut_short(threads, pid) and not attempt.native else None
            self.found.setdefault(pid, Stacks(reason="py-spy found no thread that runs Python in it"))
            return again
        known = self.found.get(pid)
        if known is not None and known.threads:  # an earlier try was cut short, which is better than nothing
            return again
        reason, may_pass = why_not(pid, reply)
        self.found[pid] = Stacks(reason=reason)
        return again if may_pass else None


def _is_stopped(pid: int) -> bool:
    process = seen(pid)
    return process is not None and process.state in "Tt"


def _frames_of(threads: Sequence[Thread], pid: int) -> tuple[Frame, ...]:
    main = main_of(threads, pid)
    return main.frames if main is not None else ()


def _depth(threads: Sequence[Thread], pid: int) -> int:
    return len(_frames_of(threads, pid))


def _cut_short(threads: Sequence[Thread], pid: int) -> bool:
    main = main_of(threads, pid)
    if main is None or not main.frames or len(main.frames) == MOST_FRAMES:
        return main is None or not main.frames
    return main.frames[-1].function.rpartition(".")[2] not in OUTERMOST


# ---------------------------------------------------------------- what py-spy says


class _Local(Struct):
    name: str = ""
    addr: int = 0
    repr: str | None = None


class _Frame(Struct):
    name: str = ""
    filename: str = ""
    module: str | None = None
    line: int = 0
    locals: list[_Local] | None = None


class _Thread(Struct):
    thread_id: int = 0
    thread_name: str | None = None
    os_thread_id: int | None = None
    owns_gil: bool | None = None
    frames: list[_Frame] = []


def _numbers_outside(pid: int) -> dict[int, int]:
    """Of a process in another PID namespace (a container): its threads' numbers there -> ours. Python has asked the
    kernel for them inside, and py-spy repeats what Python holds."""
    if len(numbers_of(pid, "NSpid")) < 2:
        return {}
    try:
        tasks = [path.name for path in Path(f"/proc/{pid}/task").iterdir() if path.name.isdecimal()][:MOST_TASKS]
    except OSError:
        return {}
    per_task = (numbers_of(f"{pid}/task/{name}", "NSpid") for name in tasks)
    return {numbers[-1]: numbers[0] for numbers in per_task if len(numbers) > 1}


def read(output: bytes, pid: int, outside: Mapping[int, int] = MappingProxyType({})) -> tuple[Thread, ...]:
    """The threads of `py-spy dump --json`; () when it is no such text. Any bytes. `outside`: `_numbers_outside`."""
    try:
        threads = msgspec.json.decode(output, type=list[_Thread])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    threads = threads[-MOST_THREADS:]  # py-spy begins with the youngest; the main thread is the last
    if outside and not any(thread.os_thread_id in outside.values() for thread in threads):
        threads = [structs.replace(one, os_thread_id=outside.get(one.os_thread_id or 0)) for one in threads]
    main = _main_of(threads, pid)
    return tuple(
        Thread(
            id=pid if thread is main else _kernel_id(thread),
            name=_short(thread.thread_name or ("MainThread" if thread is main else ""), LONGEST_NAME),
            owns_gil=thread.owns_gil,
            frames=tuple(_frames(thread)),
        )
        for thread in threads
    )


def _main_of(threads: Sequence[_Thread], pid: int) -> _Thread | None:
    """Kernel numbers tell; without them (Python 3.10 and older, read non-blocking) the name does, else the age."""
    first_threads = [thread for thread in threads if thread.os_thread_id is not None]
    if first_threads:
        return next((thread for thread in first_threads if thread.os_thread_id == pid), None)
    named = [thread for thread in threads if thread.thread_name == "MainThread"]
    candidates = named or threads
    return candidates[-1] if candidates else None


def _kernel_id(thread: _Thread) -> int:
    number = thread.os_thread_id or 0
    return number if 0 < number < 1 << 31 else 0


def _frames(thread: _Thread) -> Iterator[Frame]:
    for frame in thread.frames[:MOST_FRAMES]:
        yield Frame(
            function=_short(frame.name, LONGEST_NAME),
            file=_short(frame.module or frame.filename, LONGEST_PATH),
            line=frame.line if 0 <= frame.line < 1 << 31 else 0,
            native=frame.module is not None,
        )


def variables_of(output: bytes, pid: int, threads: Sequence[Thread]) -> tuple[FrameVariables, ...]:
    """What the frames of the program, and of a framework's loop, hold in the main thread and in autograd's, of a dump
    that `read` has read to these threads."""
    called = engine.engine_of(threads, pid)
    main = main_of(threads, pid)
    numbers = [at for at, thread in enumerate(threads) if thread is main or thread is called]
    if not numbers:
        return ()
    every = msgspec.json.decode(output, type=list[_Thread])[-len(threads) :]
    pairs = [pair for at in numbers for pair in zip(threads[at].frames, every[at].frames[:MOST_FRAMES], strict=False)]
    found: list[FrameVariables] = []
    release = _release(pid, (raw.filename for thread in every for raw in thread.frames))
    with tensors.Memory(pid) as memory:
        for frame, raw in pairs:
            wanted = is_user(frame) or (not frame.native and drives_training(frame.file))
            if raw.locals and wanted and len(found) < MOST_FRAMES_WITH_VARIABLES:
                held = {
                    local.name[:LONGEST_NAME]: _value(local, memory, release) for local in raw.locals[:MOST_VARIABLES]
                }
                held |= _attributes(raw.locals, memory, release)
                found.append(FrameVariables(frame=frame, values={name: value for name, value in held.items() if value}))
    return tuple(found)


def _release(pid: int, files: Iterable[str]) -> int:
    """The minor release of its Python: by where a file of the library lies, or by the name of the program."""
    named = next((told[1] for file in files if (told := _RELEASE.search(file))), "")
    if not named:
        with contextlib.suppress(OSError):
            own = _PROGRAM.search(str(Path(f"/proc/{pid}/exe").readlink()))
            named = own[1] if own is not None else ""
    return int(named or 0)


def _attributes(held: Sequence[_Local], memory: tensors.Memory, release: int) -> dict[str, str]:
    """What objects that a frame holds have as attributes: of `self` also what its own objects have."""
    objects = [local for local in held if (local.repr or "").endswith(f" at {local.addr:#x}>")]
    objects.sort(key=lambda local: local.name != "self")
    return {
        f"{local.name}.{name}"[:LONGEST_NAME]: value
        for local in objects[:MOST_OBJECTS]
        for name, value in attributes.numbers_of(memory, local.addr, release, deep=local.name == "self").items()
    }


def _value(local: _Local, memory: tensors.Memory, release: int) -> str:
    """A number, a truth value, some numbers, torch's name of a type, the type and sizes of a tensor, the type of error
    with which a task has failed; of a text twelve bits by which ranks are compared; "" of all else."""
    text = local.repr or ""
    if text[:1] == '"':  # what it says may be nobody else's business, and of some not even so much is kept
        bits = zlib.crc32(text.encode("utf-8", "replace")) & 0xFFF
        return f"{attributes.TEXT}{bits:03x}" if not _SECRET.search(local.name) else ""
    if _NUMBER.fullmatch(text) or (len(text) <= LONGEST_VALUE and "..." not in text and _NUMBERS.fullmatch(text)):
        return text
    if text.startswith(("<Future at ", "[<Future at ")):
        return attributes.failure(memory, local.addr, release)
    if text.startswith("<torch.dtype at "):
        return memory.dtype(local.addr)
    return memory.tensor(local.addr) if text.startswith(("<Tensor at ", "<Parameter at ")) else ""


def _short(text: str, limit: int) -> str:
    # A surrogate cannot be written as UTF-8 later.
    return text[:limit].encode("utf-8", "replace").decode("utf-8")


# ---------------------------------------------------------------- why it does not


def why_not(pid: int, reply: active.ChildReply) -> tuple[str, bool]:
    """Why py-spy failed, and whether another try may bring more."""
    said = reply.errors + reply.output[:4096].decode("utf-8", "replace")
    process = seen(pid)
    if process is None:
        return "it ended meanwhile", False
    if process.state in "ZX":
        return "it has ended, and its parent has not collected it", False
    if reply.timed_out or reply.stuck:
        where = ", which waits in the kernel" if process.state == "D" else ""
        return f"py-spy got no answer of the process{where} within {reply.seconds:.0f} s", False
    lowered = said.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered:
        return not_permitted(pid), False
    if "failed to find python version" in lowered:
        return "py-spy finds no Python interpreter in it", False
    if "unsupported version of python" in lowered:
        version = said[lowered.index("unsupported version of python") :].splitlines()[0].rpartition(":")[2].strip()
        return (
            f"this py-spy does not know its Python {version[:40]}; `{sys.executable} -m pip install -U py-spy`",
            False,
        )
    if (reply.return_code or 0) < 0:
        return f"py-spy failed: {reply.failure}", True
    return f"py-spy failed: {_first_cause(said)}", True


def _first_cause(said: str) -> str:
    """ "Failed to get stack traces: Failed to copy PyCodeObject", from the lines of py-spy's error."""
    before, _, _ = said.partition("Stack backtrace:")
    lines = [line.strip().partition("Error: ")[2] or line.strip() for line in before.splitlines() if line.strip()]
    texts = [line.lstrip("0123456789").removeprefix(":").strip() for line in lines if line != "Caused by:"]
    return ": ".join(texts[:3])[:300] or "no message"
