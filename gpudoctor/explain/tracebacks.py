"""A Python traceback in a log: the exceptions of its chain, and where in the user's code the first was raised.

The lines of several ranks may be mixed; those with the prefix of the first line belong to it.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from gpudoctor.explain.writers import Writer, writer

HEADER = "Traceback (most recent call last)"
GROUP = re.compile(r"^[\s|+]*")
FRAME = re.compile(r'^\s*[|]?\s*File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,300}))?')
EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,200}?)(?:: (?P<message>.{0,4000}))?$")
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
MOST_LINES = 3_000
LONGEST = 4_000
MOST_OF_A_MESSAGE = 20
"""Lines of an exception's message."""
MOST_STRANGE = 400
"""Lines of other writers between two of one traceback."""
LIBRARY = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3|python3\.\d{1,2}|lib64[/\\]python3)(?:[/\\.]|$)|^<frozen|^<__array"
)

COLLECTIVES = ("distributed_c10d.py", "ddp_comm_hooks/default_hooks.py")


class Raised(Struct, frozen=True):
    """One exception of a traceback."""

    type: str
    """With its module, as it was written: "torch.OutOfMemoryError"."""
    message: str
    """Its first line."""
    line: int
    """Of the log."""
    file: str = ""
    """Of the innermost frame in the user's code; where there is none, of the innermost frame."""
    at: int = 0
    function: str = ""
    innermost: str = ""
    """File of the innermost frame."""
    collective: str = ""
    """The function of torch.distributed that was waiting or refused: "all_reduce"; empty: none was called."""

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]


class Traceback(Struct, frozen=True):
    first_line: int
    last_line: int
    raised: tuple[Raised, ...]
    """In the order in which they were raised: the first is where it began. Empty: the log ends before."""
    prefix: str = ""


def read_traceback(lines: Sequence[bytes], start: int, number: int) -> Traceback:
    """The traceback whose header is `lines[start]`, which is line `number` of the log. Never raises."""
    head = lines[start][:LONGEST].decode("utf-8", "replace")
    prefix = head[: max(0, head.find(HEADER))]
    own = writer(prefix)
    raised: list[Raised] = []
    frames: list[tuple[str, int, str]] = []
    last, strange, chained = number, 0, False
    state = "frames"
    for offset, raw in enumerate(lines[start + 1 : start + 1 + MOST_LINES], 1):
        text = raw[:LONGEST].decode("utf-8", "replace").rstrip("\r")
        line = _without_prefix(text, prefix, own)
        if line is None:
            strange += 1
            if strange > MOST_STRANGE:
                break
            continue
        if state == "frames":
            bare = GROUP.sub("", line) if line.lstrip().startswith(("|", "+")) else line
            frame = FRAME.match(line)
            if frame is not None:
                frames.append((frame["file"], int(frame["line"]), (frame["function"] or "").strip()))
            elif line.startswith((" ", "\t")) and bare is line:
                pass  # the frame's source, or "[Previous line repeated 9 more times]"
            elif not bare.strip():
                continue
            elif frames and (found := EXCEPTION.match(bare.strip())):
                raised.append(_raised(found, frames, number + offset))
                state, frames = "after", []
            else:
                break  # another text, and no traceback any more
            last = number + offset
        else:  # behind an exception: does the chain go on?
            stripped = line.strip()
            if stripped.startswith(CHAINED):
                chained = True
                last = number + offset
            elif HEADER in stripped and chained:
                state, chained = "frames", False
                last = number + offset
            elif not stripped:
                continue
            elif chained or offset > last - number + 60:
                break
            elif HEADER in stripped or _begins_something(stripped, text, prefix):
                break  # not ours
            elif prefix and offset - (raised[-1].line - number) <= MOST_OF_A_MESSAGE:
                last = number + offset  # the message goes on over several lines
    return Traceback(number, last, tuple(raised), prefix)


def _begins_something(line: str, whole: str, prefix: str) -> bool:
    """A line that has a time stamp or a logger's prefix of its own, and is no continuation of a message."""
    return not prefix and writer(whole).length > 0


def _without_prefix(text: str, prefix: str, own: Writer) -> str | None:
    """The line as Python wrote it; None when another process wrote it."""
    if not prefix:
        return text
    if text.startswith(prefix):
        return text[len(prefix) :]
    if text.rstrip() == prefix.rstrip():
        return ""
    found = writer(text)
    if found.length and found[:4] == own[:4]:  # the time stamp differs
        return text[found.length :]
    return None


def _raised(found: re.Match[str], frames: list[tuple[str, int, str]], line: int) -> Raised:
    user = [frame for frame in frames if not LIBRARY.search(frame[0])]
    file, at, function = (user or frames)[-1]
    called = next((name for path, _, name in frames if path.endswith(COLLECTIVES) and name != "wrapper"), "")
    return Raised(
        found["type"], (found["message"] or "").strip()[:500], line, file, at, function, frames[-1][0], called
    )
