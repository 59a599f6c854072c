"""Where a thread is, from its stack and what the kernel says of it: the class of place, and the user's own frame."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gpudoctor.hang.evidence import Frame, Sample, Thread

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
"""Facts/03 part 4, "Stack markers". "user code": the innermost frame is the user's, or a library's that none of the
others knows. "unknown": no stack was read."""


class Place(NamedTuple):
    """Where a thread is."""

    kind: Kind
    operation: str = ""
    """What the library was asked for: "all_reduce", "barrier", "destroy_process_group", "TCPStore", "time.sleep"."""
    library_frame: Frame | None = None
    """The frame that decided the class."""
    user_frame: Frame | None = None
    """The innermost frame of the user's program: not torch's, not the standard library's, not site-packages', unless
    there is no other."""
    user_frames: tuple[Frame, ...] = ()
    """All of the user's frames, innermost first."""


def main_thread(sample: Sample, pid: int) -> Thread | None:
    """The main thread of a sample."""
    return next((thread for thread in sample.threads if thread.id == pid), None)


def place_of(thread: Thread | None) -> Place:
    """The class of a thread's place."""
    raise NotImplementedError


def is_user(frame: Frame) -> bool:
    """Whether a frame is the user's program and not a library."""
    raise NotImplementedError


def moved(samples: Sequence[Sample], pid: int) -> bool | None:
    """Whether the main thread has run between the first and the last sample; None when it was not seen twice.

    It has when its stack, its context switches or its CPU time have changed by more than looking at it costs. A thread
    that polls without getting on (NCCL's spin in cudaStreamSynchronize, a loop of time-outs) has moved as well: what
    that means is the rules' business, see `Job.progress`.
    """
    raise NotImplementedError
