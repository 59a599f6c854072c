"""The threads of what Python's faulthandler wrote, of any text: cut short, interleaved, written twice."""

from typing import NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Frame

MOST_THREADS = 512
"""Of a process; a rank with torch has some dozens, few of which run Python."""
MOST_FRAMES = 256
"""Of a thread, innermost first: recursion goes deeper, and repeats itself."""
LONGEST_NAME = 512
LONGEST_PATH = 4096
_THREAD = lazy_re(r"^(Current thread|Thread) 0x([0-9a-fA-F]{1,16})(?: \[(.*)\])? \(most recent call first\):")
_FRAME = lazy_re(r'^  File "(?P<file>.*)", line (?P<line>\d{1,9}|\?\?\?) in (?P<function>.+)$')


class DumpedThread(NamedTuple):
    name: str
    address: int
    """Python's number of it (threading.get_ident)."""
    is_current: bool
    """The signal came to it, or it crashed."""
    frames: tuple[Frame, ...]
    """Innermost first."""


def dumped_threads(text: str) -> list[DumpedThread]:
    """Those with frames, in faulthandler's order: the youngest first, the main thread last. It knows threads by their
    address; of each the last stack, should it have been asked twice."""
    by_address: dict[str, tuple[str, bool, list[Frame]]] = {}
    frames: list[Frame] | None = None
    for line in text.splitlines():
        if header := _THREAD.match(line):
            by_address.pop(header[2], None)
            frames = []
            by_address[header[2]] = (header[3] or "", header[1] == "Current thread", frames)
        elif frames is not None and len(frames) < MOST_FRAMES and (match := _FRAME.match(line)):
            number = int(match["line"]) if match["line"].isdecimal() else 0
            frames.append(Frame(match["function"][:LONGEST_NAME], match["file"][:LONGEST_PATH], number))
    threads = [
        DumpedThread(name[:LONGEST_NAME], int(address, 16), current, tuple(own))
        for address, (name, current, own) in by_address.items()
    ]
    return [thread for thread in threads if thread.frames][-MOST_THREADS:]
