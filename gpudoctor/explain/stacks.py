"""The stack that torch's watchdog writes of a collective, and whose code a frame is of: the user's or a library's."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from gpudoctor.explain.standard import STANDARD
from gpudoctor.lazy import lazy_re

LIBRARY = lazy_re(
    r"(?:^|[/\\])bin[/\\][\w+-]{1,60}$|(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3|python3\.\d{1,2}|lib64[/\\]python3)(?:[/\\.]|$)|^<frozen|^<__array"
    r"|[/\\]torch[/\\](?:distributed|nn|autograd|utils|optim|cuda|amp|_[a-z_]{1,30})[/\\.]"
)
"""Torch's own files also where it lies in a folder of another name; and what pip puts into bin to start a package."""
COLLECTIVES = ("distributed_c10d.py", "ddp_comm_hooks/default_hooks.py")
TORCH = "/torch/"
STACK = "Stack trace of the failed collective: "
STACK_FRAME = lazy_re(r"(?:^|\]: ?)#\d{1,4} (?P<function>.{1,300}?) from (?P<file>.{1,1000}):(?P<line>\d{1,9})\s*$")
MOST_FRAMES = 200
LONGEST_FRAME = 4_000


class StackFrame(NamedTuple):
    function: str
    file: str
    line: int


class Stack(Struct, frozen=True):
    """Where the collective that timed out was called, as torch's flight recorder kept it: the watchdog writes it."""

    collective: str
    """The function of torch.distributed: "barrier"; "" of what FSDP and DTensor start in torch."""
    file: str
    """Of the innermost frame in the user's code; "" where there is none."""
    at: int
    frames: tuple[StackFrame, ...] = ()
    """Those in the user's code, innermost first."""
    by_hook: bool = False
    """A hook of torch's has started it in a thread of autograd: no module and no Python thread is below it."""
    is_whole: bool = True
    """It begins with a module, or where Python begins a thread: one of autograd's begins with a hook."""


def read_stack(lines: Sequence[bytes], start: int) -> Stack | None:
    """The stack behind `lines[start]`, which says that it follows; None where it names neither a collective nor a line
    of the program."""
    collective, by_hook, is_whole = "", False, False
    own: list[StackFrame] = []
    for raw in lines[start + 1 : start + 1 + MOST_FRAMES]:
        frame = STACK_FRAME.search(raw[:LONGEST_FRAME].decode("utf-8", "replace").rstrip("\r"))
        if frame is None:
            break
        is_whole = frame["function"] == "<module>" or STANDARD.search(frame["file"]) is not None
        by_hook = TORCH in frame["file"] and not frame["file"].endswith(COLLECTIVES)
        if frame["file"].endswith(COLLECTIVES):
            collective = frame["function"]
        elif not LIBRARY.search(frame["file"]):
            own.append(StackFrame(frame["function"], frame["file"], int(frame["line"])))
    if not collective and not own:
        return None
    return Stack(collective, own[0].file if own else "", own[0].line if own else 0, tuple(own), by_hook, is_whole)
