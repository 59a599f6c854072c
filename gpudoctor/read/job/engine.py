"""Backward on a GPU: autograd runs what a program has put into its graph (hooks, functions of its own) in a thread of
torch's for each device, while the thread that has called backward waits. On a CPU all of it is one stack; here too.
"""

from collections.abc import Sequence

from msgspec import structs

from gpudoctor.knowledge.places import main_of
from gpudoctor.snapshot.evidence import Frame, Thread

WAITS = "_engine_run_backward"
"""torch/autograd/graph.py, the innermost Python of a thread that has called backward."""
BEGUN_BY_PYTHON = "_bootstrap"


def engine_of(threads: Sequence[Thread], pid: int) -> Thread | None:
    """The thread in which autograd is in the program's code for the main thread. None: there is none."""
    main = main_of(threads, pid)
    innermost = _python(main.frames) if main is not None else None
    if innermost is None or _name(innermost) != WAITS:
        return None
    for thread in threads:
        begun = _python(thread.frames[::-1])
        if (
            thread is not main
            and thread.id != pid
            and begun is not None
            and not _name(begun).startswith(BEGUN_BY_PYTHON)
        ):
            return thread
    return None


def joined(threads: tuple[Thread, ...], pid: int, most: int) -> tuple[Thread, ...]:
    """What that thread does is what the main thread does: its frames stand there, and once."""
    main, engine = main_of(threads, pid), engine_of(threads, pid)
    if engine is None:
        return threads
    return tuple(
        structs.replace(thread, frames=(*engine.frames, *thread.frames)[:most])
        if thread is main
        else structs.replace(thread, frames=())
        if thread is engine
        else thread
        for thread in threads
    )


def _name(frame: Frame) -> str:
    """Without its class, which Python 3.11 and later tell too ("Thread._bootstrap")."""
    return frame.function.rpartition(".")[2]


def _python(frames: Sequence[Frame]) -> Frame | None:
    return next((frame for frame in frames if not frame.native), None)
