"""A Python traceback in a log: the exceptions of its chain, and where in the user's code the first was raised.

The lines of several ranks may be mixed; those with the prefix of the first line belong to it.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, structs

from gpudoctor.explain.stacks import COLLECTIVES, LIBRARY, StackFrame
from gpudoctor.explain.standard import STANDARD
from gpudoctor.explain.straight import plain
from gpudoctor.explain.wrapped import HOLDS_OTHERS, OF_A_SPAWNED, RULER, SNIPPET, WRAPPED, announced_rank
from gpudoctor.explain.writers import Writer, writer
from gpudoctor.lazy import lazy_re

HEADER = "Traceback (most recent call last)"
OTHERS = lazy_re(
    r"wandb:|Error executing job with overrides|Set the environment variable HYDRA_FULL_ERROR=1|srun: |slurmstepd: |"
    r"Process [\w:-]{1,60}:$|Exception in thread |[=*~#_-]{8,}$|"
    r"(?:/|[A-Z]:|<|sys:)[^\n:]{0,400}:\d{1,9}: \w{0,60}Warning: |sys:1: \w{0,60}Warning: "
)
"""What stands behind a message and is none of it: wandb, Hydra, SLURM, Python of another process, rulers, warnings."""
OF_THE_PARSER = frozenset({"SyntaxError", "IndentationError", "TabError"})
"""Their place stands before them."""
FROM_USER_CODE = "from user code:"
"""Behind an exception of dynamo's: the stack of what it traced, in which the refused line stands (_dynamo/exc.py)."""
GROUP = lazy_re(r"^[\s|+]*")
MARGIN = lazy_re(r"^\s*\| ")
RULE = lazy_re(r"^\s*[|+]*\+-[-+ \d]*-$")
"""Of a group of exceptions: before each line, and between two of them (traceback.py, TracebackException.format)."""
FRAME = lazy_re(r'^\s*[|]?\s*File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,300}))?')
FRAME_WRITTEN = lazy_re(r'(?P<frame>  File "[^"\n]{1,1000}", line \d{1,9}(?:, in |\s*$))')
"""Behind whatever stands before it in its line."""
EXCEPTION = lazy_re(
    r"^(?P<type>[A-Za-z_][\w.]{0,200}?)(?:(?<=RayTaskError)\([\w.]{1,100}\))?(?::(?: (?P<message>.{0,4000}))?)?$"
)
AS_REPR = lazy_re(r"^(?P<type>[A-Z]\w{1,60}(?:Error|Exception))\((?P<quote>[\"'])(?P<message>.{1,2000})(?P=quote)\)$")
"""As Hydra writes what a target of its own raised (hydra/_internal/instantiate/_instantiate2.py)."""
OF_RANKS = lazy_re(r"^(?P<type>[A-Z]\w{2,40}?(?:Error|Exception))(?:(?P=type)){1,15}(?:\s{0,2}: ?){1,32}(?P<rest>.*)$")
"""What several ranks wrote at once, piece by piece: Python writes the type, then a colon, then the message."""
OF_A_TABLE = "Failures:"
"""Of another torchrun's, woven in (torch/distributed/elastic/multiprocessing/errors/__init__.py): no exception."""
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
RAY = "RayTaskError"
WRAPPERS = frozenset({RAY, "ExceptionGroup", "BaseExceptionGroup"})
NOBODY_ASKED = b"exception was never retrieved"
"""asyncio's logger, of a task or a future (asyncio/futures.py: `__del__`)."""
CAUGHT = lazy_re(r"^Caught [\w.]{1,200} in ")
"""An exception around another, whose own traceback follows: Ray's, Python's groups, torch's ExceptionWrapper (torch/
_utils.py: "Caught KeyError in DataLoader worker process 3." and "Original Traceback ...")."""
MOST_ESCAPED = 256 * 1024
MOST_LINES = 3_000
LONGEST = 4_000
MOST_OF_A_MESSAGE = 20
"""Lines of an exception's message."""
MOST_MORE = 6
"""Of these are kept."""
LONGEST_CODE = 160
MOST_STRANGE = 400
"""Lines of other writers between two of one traceback."""
MOST_OWN = 16
"""Frames of the user's code that are kept of an exception."""


class WrittenFrame(NamedTuple):
    file: str
    at: int
    function: str
    number: int
    """Of the log's line."""
    text: str
    code: str = ""
    """The source below it, where it was written."""


class Raised(Struct, frozen=True):
    """One exception of a traceback."""

    type: str
    """With its module, as it was written: "torch.OutOfMemoryError"."""
    message: str
    """Its first line."""
    line: int
    """Of the log."""
    file: str = ""
    """Of the innermost frame in the user's code; where there is none, of the innermost that is not Python's own."""
    at: int = 0
    function: str = ""
    frame: tuple[int, str] = (0, "")
    """The log's line that names `file`, with its number."""
    innermost: str = ""
    """File of the innermost frame."""
    raised_by: str = ""
    """Its function."""
    code: str = ""
    """The source of the innermost frame, where it was written."""
    outermost: str = ""
    """The function in which the stack begins: "<module>" of one that nobody caught."""
    frames: int = 0
    first_file: str = ""
    """Of the outermost frame."""
    source: str = ""
    """The source at `file`."""
    collective: str = ""
    """The function of torch.distributed that was waiting or refused: "all_reduce"; empty: none was called."""
    own: tuple[StackFrame, ...] = ()
    """Of the user's code, innermost first."""
    more: tuple[tuple[int, str], ...] = ()
    """Further lines of the message, with their numbers; perhaps lines that somebody else wrote behind it."""

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]

    announces: bool = False
    """Its message ends with another traceback, that of what it stands for."""
    again: str = ""
    """The file in which it was raised again (`raise e`), after something else was tried while it was handled."""

    @property
    def is_wrapper(self) -> bool:
        return (
            self.announces or self.name in WRAPPERS or HEADER in self.message or CAUGHT.match(self.message) is not None
        )

    @property
    def words(self) -> str:
        """The message; where its first line says nothing, or ends as one that is explained, with the next."""
        if not self.more or (self.message and not self.message.endswith(":")):
            return self.message
        return f"{self.message} {self.more[0][1]}".strip()

    @property
    def all_words(self) -> str:
        return "\n".join((self.message, *(text for _, text in self.more)))


class Traceback(Struct, frozen=True):
    first_line: int
    last_line: int
    raised: tuple[Raised, ...]
    """In the order in which they were raised: the first is where it began. Empty: the log ends before."""
    prefix: str = ""
    follows: bool = False
    """It came of another exception, which was not pasted."""
    rank: int | None = None
    """Of which an exception around it tells that it is."""
    of_a_task: bool = False
    """One of asyncio's tasks ended by it, and nobody asked what became of that task: the program goes on."""

    @property
    def lines(self) -> range:
        return range(self.first_line, self.last_line + 1)

    def rank_at(self, number: int) -> int | None:
        return self.rank if number in self.lines else None


def read_traceback(lines: Sequence[bytes], start: int, number: int) -> Traceback:
    """The traceback whose header is `lines[start]`, which is line `number` of the log. Never raises."""
    head = lines[start][:LONGEST].decode("utf-8", "replace")
    prefix = head[: max(0, head.find(HEADER))]
    own = writer(prefix)
    following = lines[start + 1][:LONGEST].decode("utf-8", "replace") if start + 1 < len(lines) else ""
    if prefix.strip() and not own.length and FRAME.match(following):
        prefix = ""  # a progress bar or another line was not ended before
    raised: list[Raised] = []
    frames: list[WrittenFrame] = []
    traced: list[WrittenFrame] = []
    last, strange, chained, is_traced = number, 0, False, False
    state, rank = "frames", announced_rank(lines[start], *lines[max(0, start - 1) : start])
    for offset, raw in enumerate(lines[start + 1 : start + 1 + MOST_LINES], 1):
        text = raw[:LONGEST].decode("utf-8", "replace").rstrip("\r")
        line = _without_prefix(text, prefix, own)
        if line is None:
            strange += 1
            if strange > MOST_STRANGE:
                break
            continue
        if state == "frames":
            bare = GROUP.sub("", line) if line.lstrip().startswith(("|", "+-", "+ Exc")) else line
            frame = FRAME.match(line)
            if frame is not None:
                frames.append(_frame(frame, number + offset, text))
            elif (MARGIN.sub("", line) if bare is not line else line).startswith((" ", "\t")):
                if frames and not frames[-1].code:  # the frame's source, or "[Previous line repeated 9 more times]"
                    frames[-1] = frames[-1]._replace(code=line.strip()[:LONGEST_CODE])
            elif not bare.strip() or bare.strip() == OF_A_TABLE:
                continue
            elif frames and (match := EXCEPTION.match(of_one_rank(bare.strip()))):
                raised.append(_raised(match, frames, number + offset))
                state, frames = "frames" if raised[-1].is_wrapper and HEADER in raised[-1].message else "after", []
            else:
                break  # another text, and no traceback any more
            last = number + offset
        else:  # behind an exception: does the chain go on?
            stripped = line.strip()
            if raised[-1].name == RAY and (frame := FRAME.match(line)):  # the worker's own stack follows
                state, frames = "frames", [_frame(frame, number + offset, text)]
                last = number + offset
            elif stripped == FROM_USER_CODE:
                is_traced, traced, last = True, [], number + offset
            elif is_traced and (frame := FRAME.match(line)):
                traced.append(_frame(frame, number + offset, text))
                last = number + offset
            elif is_traced and traced and not traced[-1].code and stripped:
                traced[-1] = traced[-1]._replace(code=stripped[:LONGEST_CODE])
                last = number + offset
            elif raised[-1].name in HOLDS_OTHERS and (RULER.match(stripped) or SNIPPET.match(stripped)):
                rank, last = announced_rank(stripped) if rank is None else rank, number + offset
            elif HEADER in stripped and (raised[-1].is_wrapper or _announces(raised[-1])):
                rank = announced_rank(stripped) if rank is None else rank
                raised[-1] = structs.replace(raised[-1], announces=True)
                state = "frames"
                last = number + offset
            elif stripped.startswith(CHAINED):
                chained = True
                last = number + offset
            elif HEADER in stripped and chained:
                state, chained = "frames", False
                last = number + offset
            elif not stripped:
                continue
            elif chained or offset > last - number + 60 or SNIPPET.match(stripped):
                break
            elif HEADER in stripped or _begins_something(stripped, text, prefix):
                break  # not ours
            elif raised[-1].name in OF_THE_PARSER and FRAME.match(line):
                break  # another rank's
            elif RULE.match(line):
                continue
            elif offset - (raised[-1].line - number) <= MOST_OF_A_MESSAGE:
                if prefix:
                    last = number + offset  # the message goes on over several lines
                if len(raised[-1].more) < MOST_MORE:
                    more = (*raised[-1].more, (number + offset, GROUP.sub("", stripped)[:500]))
                    raised[-1] = structs.replace(raised[-1], more=more)
    if any(not LIBRARY.search(frame.file) for frame in traced):
        raised[-1] = structs.replace(raised[-1], **_place(traced))
    inner = [_unwrapped(exception) for exception in raised if not exception.is_wrapper]
    before = b"".join(lines[max(0, start - 3) : start])
    follows = any(words.encode() in before for words in CHAINED)
    of_a_task = NOBODY_ASKED in before
    chain = _placed(_without_lookups(inner or raised))
    if inner and raised[0].is_wrapper:  # whose stack tells whether anybody caught it
        chain[-1] = structs.replace(chain[-1], outermost=raised[0].outermost, first_file=raised[0].first_file)
    return Traceback(number, last, tuple(chain), prefix, follows, rank, of_a_task)


def _announces(raised: Raised) -> bool:
    """Nothing stands behind the colon with which its message ends (Ray's of an actor that cannot be imported)."""
    last = raised.more[-1][1] if raised.more else raised.message
    is_announced = OF_A_SPAWNED.match(last) is not None or raised.name in HOLDS_OTHERS
    return is_announced or (raised.message.endswith(":") and not raised.more)


def _unwrapped(raised: Raised) -> Raised:
    """What a backend raised, where its name and message follow: the wrapper's own words tell only how to do without."""
    number, text = raised.more[0] if raised.more and WRAPPED.match(raised.message) else (0, "")
    if (match := EXCEPTION.match(text)) is None or not match["message"]:
        return raised
    return structs.replace(
        raised, type=match["type"], message=match["message"].strip()[:500], line=number, more=raised.more[1:]
    )


def _placed(raised: list[Raised]) -> list[Raised]:
    """Each with a place in the user's code: the stack of what a library caught and raised again begins where it was
    caught, and how the program came there stands with the next of the chain."""
    placed: list[Raised] = []
    for each in reversed(raised):
        outer = placed[0] if placed else None
        if not each.own and outer is not None and outer.own:
            each = structs.replace(
                each,
                **{name: getattr(outer, name) for name in ("file", "at", "function", "frame", "source", "own")},
            )
        placed.insert(0, each)
    return placed


def of_one_rank(text: str) -> str:
    """An exception as Python writes it, of one that was written by its repr, or by several ranks at once."""
    if shown := AS_REPR.match(text.strip()):
        return f"{shown['type']}: {shown['message']}"
    mixed = OF_RANKS.match(text.strip())
    if mixed is None:
        return text
    message = re.sub(r"^(.{3,500}?)\1+:?$", r"\1", mixed["rest"].strip())
    return f"{mixed['type']}: {message}"


LOOKED_UP = frozenset({"KeyError", "AttributeError", "IndexError", "StopIteration", "Empty"})
HAS_NOT = lazy_re(r" has no attribute '(?P<name>\w{1,80})'$")
AGAIN = lazy_re(r"raise [a-z_]\w{0,40}$")
SHORT = 2
"""Frames of what fails in the function that asks: its own, and one of a `__getitem__` or the like."""


def _without_lookups(raised: list[Raised]) -> list[Raised]:
    """Without what a function only asked for, to refuse it in words of its own: a name that its table does not have; an
    attribute that one object asks of the next (`__getattr__`: the last one has it not either); and what was tried in
    place of something that had failed before, and then was raised again."""
    return [
        each
        for each, then in zip(raised, [*raised[1:], None], strict=False)
        if then is None or not _is_none_of_its_own(each, then)
    ]


def _is_none_of_its_own(each: Raised, then: Raised) -> bool:
    asked, of_next = HAS_NOT.search(each.message), HAS_NOT.search(then.message)
    if asked is not None and of_next is not None and asked["name"] == of_next["name"]:
        return True
    if then.again and then.again == each.first_file:
        return True
    refused = then.code.startswith("raise ") and len(then.message) > len(each.message)
    return each.name in LOOKED_UP and each.frames <= SHORT and refused and then.innermost == each.first_file


def read_headless(lines: Sequence[bytes], start: int, number: int) -> Traceback | None:
    """The traceback of which `lines[start]`, line `number` of the log, is the first frame that is left; None where it
    ends in no exception."""
    head = lines[start][:LONGEST].decode("utf-8", "replace")
    match = FRAME_WRITTEN.search(head)
    if match is None:
        return None
    header = (head[: match.start("frame")] + HEADER).encode()
    traceback = read_traceback([header, *lines[start : start + MOST_LINES]], 0, number - 1)
    return structs.replace(traceback, first_line=number) if traceback.raised else None


def read_escaped(text: bytes, number: int) -> Traceback | None:
    """The traceback that one line holds as JSON or Python's repr write it; None where it holds none such."""
    at = text.find(HEADER.encode())
    body = text[at : at + MOST_ESCAPED]
    if b"\\n" not in body[: len(HEADER) + 8]:
        return None
    quote = text[:at].rstrip()[-1:]
    if quote in (b'"', b"'"):
        end = re.match(rb"(?:[^\\" + quote + rb"]|\\.)*", body)
        body = end.group() if end else body
    traceback = read_traceback(plain(body).split(b"\n"), 0, number)
    raised = tuple(structs.replace(raised, line=number) for raised in traceback.raised)
    return structs.replace(traceback, last_line=number, raised=raised)


def _begins_something(line: str, whole: str, prefix: str) -> bool:
    """A line that has a time stamp or a logger's prefix of its own, and is no continuation of a message."""
    return OTHERS.match(line) is not None or (not prefix and writer(whole).length > 0)


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


def _frame(match: re.Match[str], number: int, text: str) -> WrittenFrame:
    return WrittenFrame(match["file"], int(match["line"]), (match["function"] or "").strip(), number, text[:500])


def _place(frames: list[WrittenFrame]) -> dict[str, Any]:
    """The fields of `Raised` that say where in the user's code."""
    user = [frame for frame in frames if not LIBRARY.search(frame.file)]
    at = (user or [frame for frame in frames if not STANDARD.search(frame.file)] or frames)[-1]
    return {
        "file": at.file,
        "at": at.at,
        "function": at.function,
        "frame": (at.number, at.text) if user else (0, ""),
        "source": at.code,
        "own": tuple(StackFrame(frame.function, frame.file, frame.at) for frame in reversed(user[-MOST_OWN:])),
    }


def _raised(match: re.Match[str], frames: list[WrittenFrame], line: int) -> Raised:
    called = next(
        (frame.function for frame in frames if frame.file.endswith(COLLECTIVES) and frame.function != "wrapper"), ""
    )
    return Raised(
        type=match["type"],
        message=(match["message"] or "").strip()[:500],
        line=line,
        innermost=frames[-1].file,
        raised_by=frames[-1].function,
        code=frames[-1].code,
        outermost=frames[0].function,
        frames=len(frames),
        first_file=frames[0].file,
        collective=called,
        again=next((frame.file for frame in frames[:-1] if AGAIN.match(frame.code)), ""),
        **_place(frames),
    )
