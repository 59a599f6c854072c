"""Where a thread is, from its stack and what the kernel says of it: the class of place, and the user's own frame."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, cast

from gpudoctor.knowledge import place_markers as known
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Frame, Sample, SourceContext, Thread

Kind = Literal[
    "rendezvous",
    "communicator init",
    "collective",
    "point-to-point",
    "backward",
    "cuda sync",
    "data",
    "storage",
    "compile",
    "input",
    "sleep",
    "exit",
    "store wait",
    "user code",
    "unknown",
]
"""By the markers of `place_markers.py`. "user code": the innermost frame is the user's, or a library's that none of
the others knows. "unknown": no stack was read.

torchrun's own process has "rendezvous" while it meets the others, "sleep" with the operation "_invoke_run" while it
watches its ranks, and "exit" with "_exit_barrier" when its ranks have ended and other nodes' have not.
"""


class Place(NamedTuple):
    """Where a thread is."""

    kind: Kind
    operation: str = ""
    """What the library was asked for: "all_reduce", "barrier", "destroy_process_group", "TCPStore", "time.sleep".

    Of "user code": what it waits for where that can be told: "queue.get", "subprocess.run", "lock"; else empty."""
    library_frame: Frame | None = None
    """The frame that decided the class."""
    user_frame: Frame | None = None
    """The innermost frame of the user's program: not torch's, not the standard library's, not site-packages', unless
    there is no other."""
    user_frames: tuple[Frame, ...] = ()
    """All of the user's frames, innermost first."""


SERVING = (
    "ray/_private/workers/default_worker.py",
    "distributed/nanny.py",
    "distributed/cli/dask_worker.py",
    "distributed/cli/dask_spec.py",
)
"""Programs whose main thread takes orders; what these name runs in another one: Ray Train's worker
(ray/train/v2/_internal/execution/worker_group/thread_runner.py) and Dask's."""


def main_thread(sample: Sample, pid: int) -> Thread | None:
    """The main thread of a sample."""
    return main_of(sample.threads, pid)


def main_of(threads: Iterable[Thread], pid: int) -> Thread | None:
    """The thread on which the program of a process runs: the main one, whose number is the process's; where that one
    serves, the oldest that has the program's frames, a collective's before others."""
    every = tuple(threads)
    main = next((thread for thread in every if thread.id == pid), None)
    if main is None or not any(frame.file.endswith(SERVING) for frame in main.frames):
        return main
    if any(map(is_user, main.frames)):
        return main
    given = [thread for thread in every if thread.id != pid and any(map(is_user, thread.frames))]
    return next(filter(in_collective, given), given[0] if given else main)


def place_of(
    thread: Thread | None, sources: Sequence[SourceContext] = (), *, gpu: bool = False, mpi: bool = False
) -> Place:
    """The class of a thread's place.

    `sources`: what the user's program says at its frames, `gpu`: whether the process uses one, `mpi`: whether it has
    loaded MPI. With them, calls that leave no frame of their own can be told too: `work.wait()`, `loss.item()`,
    `comm.Barrier()`.
    """
    if thread is None or not thread.frames:
        return Place("unknown")
    frames = thread.frames
    users = _user_frames(frames)
    # Of a package that lies outside of site-packages not every file has been read.
    packages = tuple({f"{source.file.rsplit('/', 2)[0]}/" for source in sources if source.installed})
    own = (frame for frame in users if frame.function == "<module>" or not frame.file.startswith(packages))
    users = (*own,) or users
    user = users[0] if users else None
    place = _marked(frames, user)
    if place is None and (ended := _at_exit(thread)):
        place = ended
    if place is None or place[0] == "user code":
        # What the kernel and native frames say is of the innermost call; the user's frame is what made it.
        called = _compiled(thread) or _by_text(thread, user, sources, gpu, mpi)
        if called is None or called[0] != "rendezvous":  # what asks again and again sleeps in between
            called = _by_kernel(thread, place) or _native(frames) or called
        place = called or place
    if place is None:
        place = ("user code", _waits_for(thread), frames[0])
    kind, operation, frame = place
    return Place(cast(Kind, kind), operation, frame, user, users)


def is_user(frame: Frame) -> bool:
    """Whether a frame is the user's program and not a library."""
    return not frame.native and known.is_program(frame.file)


_OF_TORCH = lazy_re(r"/torch/(?!distributed/checkpoint/)")


def is_library(frame: Frame) -> bool:
    """Whether a frame is of an installed package whose ways may differ from rank to rank: not of torch, but of its
    checkpoints."""
    file = frame.file.replace("\\", "/")
    if frame.native or not file or file.startswith("<") or known.is_program(file) or known.is_script(file):
        return False
    return not known.is_standard_library(file) and _OF_TORCH.search(file) is None


def is_marked(frame: Frame) -> bool:
    """Whether it is known what a thread does whose innermost frame it is."""
    return _marker(frame) is not None


def in_collective(thread: Thread) -> bool:
    """Whether the program has called what other ranks take part in, in this thread."""
    place = place_of(thread)
    acts = place.kind in ("collective", "point-to-point", "backward", "communicator init")
    return acts and any(map(is_user, place.user_frames))


_Found = tuple[str, str, Frame]
"""Kind, operation, the frame that decided."""

_markers = known.markers()
_SPAWNED = frozenset(("spawn_main", "_serve_one", "main"))


def _short(function: str) -> str:
    """ "get" for "Queue.get"; "__init__" of a class in torch is that class ("_open_file.__init__")."""
    name = function.rpartition(".")[2]
    if name in ("__init__", "__enter__", "__exit__") and "." in function:
        return function.split(".")[-2]
    return name


def _user_frames(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The user's frames; where there are none, those of installed packages that are no framework, or of a command."""
    own = [frame for frame in _of_this_process(frames) if not frame.native and _marker(frame) is None]
    users = tuple(frame for frame in own if known.is_program(frame.file))
    if any(not frame.file.startswith("<") for frame in users):
        # `exec` of a library: the methods of multiprocessing's proxies, of dataclasses and named tuples.
        users = tuple(frame for frame in users if frame.file != "<string>" or frame.function == "<module>")
    installed = tuple(frame for frame in own if known.is_installed(frame.file))
    commands = tuple(frame for frame in own if known.is_script(frame.file) and not known.is_launcher(frame.file))
    return users or installed or commands


def _of_this_process(frames: Sequence[Frame]) -> Iterator[Frame]:
    """The frames without those that a forked worker has from its parent, and `python -c` of a spawned one."""
    before: Frame | None = None
    for frame in frames:
        file = known.normal(frame.file)
        if file.endswith("/python/multiprocessing/popen_fork.py") and _short(frame.function) == "_launch":
            return
        started = before is not None and known.normal(before.file).startswith("/python/multiprocessing/")
        if not (frame.file == "<string>" and started and before and _short(before.function) in _SPAWNED):
            yield frame
        before = frame


def _marker(frame: Frame) -> known.Marker | None:
    if frame.native or not frame.file:
        return None
    return _markers.of(known.normal(frame.file), _short(frame.function))


def _marked(frames: Sequence[Frame], user: Frame | None) -> _Found | None:
    """The innermost known frame, not further out than the user's innermost one."""
    weak: _Found | None = None
    for number, frame in enumerate(frames):
        marker = _marker(frame)
        if marker is not None:
            name = marker.operation or _short(frame.function)
            if not marker.weak:
                return (marker.kind, _asked_for(frames, number, marker.kind, name), frame)
            weak = weak or (marker.kind, name, frame)
        if frame is user:
            if known.OF_PDB.search(frame.function):
                return "input", "breakpoint", frame
            break
    return weak


def _asked_for(frames: Sequence[Frame], number: int, kind: str, name: str) -> str:
    """The outermost function of torch.distributed that leads to this one: "all_gather_object", not its "all_gather"."""
    if not known.normal(frames[number].file).endswith(known.C10D):
        return name
    for frame in frames[number + 1 :]:
        file = known.normal(frame.file)
        if file.endswith("torch/distributed/c10d_logger.py"):
            continue
        marker = _marker(frame)
        if not file.endswith(known.C10D) or marker is None or (marker.kind != kind and kind != "communicator init"):
            break
        name = _short(frame.function)
    return name


_STARTS = frozenset(("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "spawn_main", "main"))


def _at_exit(thread: Thread) -> _Found | None:
    """A function that `atexit` calls stands at the bottom of the main thread's stack, where else the program does.

    Only of a thread that sleeps: the stack of a running one may have been read cut short.
    """
    outermost = thread.frames[-1]
    sleeps = bool(thread.waits_in) or thread.state in ("S", "D")
    if thread.name != "MainThread" or not sleeps or outermost.native or len(thread.frames) >= 100:
        return None
    if _short(outermost.function) in _STARTS or outermost.file.startswith("<frozen"):
        return None
    return ("exit", "atexit", outermost)


def _by_kernel(thread: Thread, weak: _Found | None) -> _Found | None:
    """What the kernel function and system call say, where no frame does."""
    frame = next((frame for frame in thread.frames if not frame.native), thread.frames[0])
    name = known.kernel_name(thread.waits_in)
    call = thread.syscall.strip()
    if name in known.OPENS_FIFO:
        return ("storage", "open", frame)
    if known.STORAGE.match(name):
        return ("storage", "file access", frame)
    if name in known.FILE_LOCKS:
        return ("storage", "file lock", frame)
    if thread.state == "D" and not known.NOT_STORAGE.match(name):
        return ("storage", "file access", frame)
    if weak is not None and weak[1] not in ("", "sleep"):
        return None
    if name in known.TERMINALS or re.match(r"read\((?:0|0x0)\s*[,)]", call):
        return ("input", "standard input", frame)
    if known.sleeps(name, call):
        return ("sleep", "time.sleep", frame)
    return None


def _native(frames: Sequence[Frame]) -> _Found | None:
    """The innermost native frame that is known."""
    for frame in frames:
        if frame.native:
            for marker in known.NATIVE:
                if marker.pattern.search(frame.function):
                    return (marker.kind, marker.operation or frame.function.partition("(")[0][:80], frame)
    return None


_WORK_WAIT = lazy_re(r"\.wait\(")
_CALLED = lazy_re(
    r"\.(all_reduce|all_gather(?:_single|_v)?|reduce_scatter(?:_single|_v)?|all_to_all(?:_single|_v_single)?|broadcast"
    r"|(?:monitored_)?barrier)\("
)
"""Collectives that are methods written in C: torchcomms' TorchComm, and a ProcessGroup that is asked itself."""
_WORK_POINT_TO_POINT = lazy_re(r"\b(?:irecv|isend|batch_isend_irecv)\(")
_STORE = lazy_re(r"\b\w*store\w*\.(?:get|wait|multi_get)\(", re.IGNORECASE)
_ASKS = lazy_re(r"\b(\w+)\.(?:get|wait|multi_get)\(")
_SYNCHRONIZES = lazy_re(r"\.(item|tolist|cpu|numpy|synchronize|nonzero)\(")


MPI = "MPI "
"""Begins the operations of mpi4py: they spin until they are over, so that CPU time does not say that one gets on."""
_MPI_CALLS = lazy_re(
    r"\.(?:(?P<pair>[Ss]end|[Rr]ecv|[Ss]send|[Bb]send|[Ss]endrecv(?:_replace)?|[Pp]robe|[Ww]ait(?:all|any)?)"
    r"|(?P<all>I?[Bb]arrier|[Bb]cast|[Rr]educe|[Aa]llreduce|[Gg]atherv?|[Aa]llgatherv?|[Ss]catterv?|[Aa]lltoall[vw]?"
    r"|[Rr]educe_scatter(?:_block)?|[Ss]can|[Ee]xscan|Split(?:_type)?|Dup|Create(?:_group)?|Disconnect|Win\.\w+|Fence))\("
)
"""Methods of mpi4py's Comm, Request and Win that wait (its documentation has the list); in C, without a frame."""


_GENERATED = lazy_re(r"<eval_with_key>|/torchinductor_[^/]*/")


def _compiled(thread: Thread) -> _Found | None:
    """An operator that code of torch.compile has called and that sleeps: its collectives are operators (wait_tensor),
    and no function of torch.distributed is on the stack."""
    python = [frame for frame in thread.frames if not frame.native]
    operators = [frame for frame in python if known.normal(frame.file).endswith("torch/_ops.py")]
    if not operators or operators[0] is not python[0] or known.kernel_name(thread.waits_in) not in known.FUTEX:
        return None
    generated = any(_GENERATED.search(frame.file) for frame in python)
    return ("collective", "an operator of compiled code", python[0]) if generated else None


def _by_text(
    thread: Thread, user: Frame | None, sources: Sequence[SourceContext], gpu: bool, mpi: bool
) -> _Found | None:
    """What the line of the user's innermost frame calls, where it is the innermost of all: a method written in C."""
    innermost = next((frame for frame in thread.frames if not frame.native), None)
    name = known.kernel_name(thread.waits_in)
    if innermost is not None and innermost is not user and is_library(innermost):
        # Of a library no more than a collective that its line calls: Lightning's `self.barrier()`.
        text = next((one.text for one in sources if (one.line, one.file) == (innermost.line, innermost.file)), "")
        call = _CALLED.search(text) if name in known.FUTEX else None
        return ("collective", call[1], innermost) if call is not None else None
    if user is None or innermost is not user:
        return None
    source = next((one for one in sources if one.line == user.line and _same_file(one.file, user.file)), None)
    if source is None:
        return None
    if mpi and name not in known.SLEEPS and (call := _MPI_CALLS.search(source.text)):
        kind = "point-to-point" if call["pair"] else "collective"
        return (kind, MPI + (call["pair"] or call["all"]), user)
    if name in known.FUTEX and (call := _CALLED.search(source.text)):
        return ("collective", call[1], user)
    if name in known.FUTEX and _WORK_WAIT.search(source.text):
        around = (source.text, *(each.text for each in source.enclosing if each.kind == "for"))
        exchanges = any(map(_WORK_POINT_TO_POINT.search, around))
        return ("point-to-point" if exchanges else "collective", "Work.wait", user)
    asked = _ASKS.search(source.text)
    a_store = _STORE.search(source.text) or (asked is not None and asked[1] in source.stores)
    if name in known.POLLS | known.SOCKETS and a_store:
        return ("store wait", "TCPStore", user)
    if "TCPStore(" in source.text:
        return ("rendezvous", "TCPStore", user)
    if gpu and name not in known.FUTEX and (call := _SYNCHRONIZES.search(source.text)):
        return ("cuda sync", call[1], user)
    return None


def _same_file(one: str, other: str) -> bool:
    return one == other or one.endswith("/" + other.removeprefix("./"))


def _waits_for(thread: Thread) -> str:
    """What the user's code asked the standard library for; "lock" for one that is waited for without any frame."""
    asked = ""
    for frame in thread.frames:
        if frame.native:
            continue
        if not known.is_standard_library(frame.file):
            break
        if frame.file.startswith("<frozen importlib"):
            asked = "import"
            continue
        stem = known.normal(frame.file).rpartition("/")[2].removesuffix(".py")
        asked = f"{stem}.{frame.function.rpartition('.')[2]}"
    if asked:
        return asked
    name = known.kernel_name(thread.waits_in)
    if name in known.CHILDREN:
        return "wait for a process"
    if name in known.PIPES:
        return "read of a pipe"
    if name in known.SOCKETS:
        return "read of a socket"
    return "lock" if name in known.FUTEX else ""


# ---------------------------------------------------------------- twice

SWITCHES_OF_A_LOOK = {"faulthandler": 4, "worker server": 2}
"""Context switches that reading a stack may cost its thread: a signal that wakes it, and going to sleep again
[measured: 1 or 2]. py-spy without --native costs none."""
SWITCHES_OF_A_STOP = 8
"""py-spy --native stops each thread with ptrace."""
CPU_OF_A_LOOK = 0.02
"""Seconds: two ticks of the kernel's clock, in which CPU time is told."""


def moved(samples: Sequence[Sample], pid: int) -> bool | None:
    """Whether the main thread has run between the first and the last sample; None when it was not seen twice.

    It has when its stack, its context switches or its CPU time have changed by more than looking at it costs. A thread
    that polls without getting on (NCCL's spin in cudaStreamSynchronize, a loop of time-outs) has moved as well: what
    that means is the rules' business, see `Job.progress`.
    """
    if len(samples) < 2:
        return None
    first, last = main_thread(samples[0], pid), main_thread(samples[-1], pid)
    if first is None or last is None:
        return None
    answers: list[bool] = []
    if first.frames and last.frames:
        answers.append(_python(first) != _python(last))
    if first.switches is not None and last.switches is not None:
        answers.append(last.switches - first.switches > _cost(samples, (first, last)))
    if first.cpu_seconds is not None and last.cpu_seconds is not None:
        answers.append(last.cpu_seconds - first.cpu_seconds > CPU_OF_A_LOOK + 1e-6)
    return any(answers) if answers else None


def _python(thread: Thread) -> tuple[Frame, ...]:
    return tuple(frame for frame in thread.frames if not frame.native)


def _cost(samples: Sequence[Sample], threads: Sequence[Thread]) -> int:
    by = {sample.stacks_by for sample in samples}
    cost = max((SWITCHES_OF_A_LOOK.get(name, 0) for name in by), default=0)
    stopped = any(frame.native for thread in threads for frame in thread.frames)
    return max(cost, SWITCHES_OF_A_STOP if stopped else 0)
