"""What a loop of the program goes over, and by what it may end on one rank before it does on another; and what the
variables of a rank say to a condition."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from gpudoctor.hang.conditions import parsed, says
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.job import Rank
from gpudoctor.hang.relation import (
    COUNTED,
    LOOPS,
    OWN_NUMBER,
    fork_of,
    frames_within,
    loop_around,
    outside_backward,
    source_at,
)
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Enclosing, SourceContext
from gpudoctor.sure import LIKELY, POSSIBLE, SEEN

Ends = Literal["alike", "with its data", "by a decision", "by what the rank holds", "unknown"]
"""How a loop ends: after as many rounds on all ranks; when there is no more data; when a condition is found otherwise;
after as many rounds as the rank has of something that is no data; that is not told by its text."""

_DATA = lazy_re(r"load|batch|data|sample|shard|read|stream|file|record|chunk|next\(|corpus|split|episode|rollout", re.I)
_OF_DATA = lazy_re(
    r"\b(?:\w+_)?(?:batch|sample|image|text|input|target|label|row|item|prompt|question|example|token|document)s?\b",
    re.I,
)
"""What a loop gives out, where what it goes over has another name."""
_HELD = lazy_re(
    r"\.(?:items|keys|values|parameters|named_parameters|modules|named_modules|children|buffers)\(\)"
    r"|\b(?:\w+_)?(?:param|parameter|grad|gradient|layer|module|metric|loss|losse|key|name|callback|handler|hook|bucket|group"
    r"|optimizer|expert|head|task|policie|model|work|handle|req|future)s\b",
    re.I,
)
_COPIED = lazy_re(r"(?:list|tuple|sorted|reversed|set)\([\w.]+\)")
"""Nobody makes a copy of a stream: what is copied and gone over is held."""
_ENDS_WITH_DATA = lazy_re(
    r"StopIteration|\b(?:not\s+)?\w*(?:batch|batches|data|sample|item|row|chunk|record|shard|example|inputs?)\w*(?:\[0\])?"
    r"(?:\s+is\s+None)?$",
    re.I,
)


_DONE = lazy_re(r"not self\.\w*(?:done|finished|stop)\w*")
"""A framework's own loop, as Lightning's: it ends with its data, after as many steps as were asked for, or when asked
to; that is further in."""


def ends(loop: Enclosing, asked: bool | None = None) -> Ends:
    """How a loop ends that nobody leaves early. `asked`: of a framework's loop, whether the program asks it to end."""
    if loop.kind == "while":
        if asked is not None and _DONE.fullmatch(loop.text):
            return "by a decision" if asked else "with its data"
        if _DATA.search(loop.text) and "None" in loop.text:
            return "with its data"
        return "unknown" if loop.text in ("True", "1") or only_counts(loop.text) else "by a decision"
    if COUNTED.search(loop.text) is not None:
        return "alike"
    each, _, over = loop.text.partition(" in ")
    if _HELD.search(over) or (_COPIED.fullmatch(over) and not _DATA.search(loop.text)):
        return "by what the rank holds"
    if OWN_NUMBER.search(loop.text) is not None:
        return "unknown"
    return "with its data" if _DATA.search(over) or _OF_DATA.search(each) else "unknown"


class LoopEnded(NamedTuple):
    """How it comes that some ranks are through with loops in which others are."""

    loop: Enclosing
    """The loop that tells."""
    cause: str
    sure: float
    alike: bool = False
    """All of the loops have as many rounds on all ranks, as far as their text tells."""


def how_ended(loops: Sequence[Enclosing], asked: bool | None = None) -> LoopEnded:
    """Of loops that some ranks have left, the innermost first, by nothing that leaves one early. `asked`: as above."""
    kinds = [ends(loop, asked) for loop in loops]
    outer = next((number for number in reversed(range(len(loops))) if kinds[number] != "alike"), None)
    if outer is None:
        return LoopEnded(loops[0], "uneven-inputs", POSSIBLE, True)
    loop, kind = loops[outer], kinds[outer]
    if kind == "by what the rank holds":
        if "with its data" in kinds[:outer]:
            return LoopEnded(loops[kinds.index("with its data")], "uneven-inputs", LIKELY)
        return LoopEnded(loop, "rank-divergent-decision", LIKELY, not outer and len(loops) == 1)
    if kind == "by a decision":
        return LoopEnded(loop, "rank-divergent-decision", SEEN if asked is None else LIKELY)
    if kind == "with its data":
        return LoopEnded(loop, "uneven-inputs", SEEN if asked is None else LIKELY)
    # As many rounds as each rank has found, and no batches: `for _ in range(objects)`.
    if OWN_NUMBER.search(loop.text) is not None:
        return LoopEnded(loop, "rank-divergent-decision", SEEN)
    # What else a `for` goes over may end by itself, as a counter of epochs does that watches the loss.
    return LoopEnded(loop, "uneven-inputs", LIKELY if loop.kind == "while" else POSSIBLE)


def loops_left(stays: Rank, left: Rank, context: SourceContext) -> list[Enclosing]:
    """The loops around a rank that another one is not in, the innermost first."""
    fork = fork_of(stays, left)
    theirs = set()
    if fork is not None and fork.other_source is not None:
        theirs = {around.line for around in fork.other_source.enclosing if around.kind in LOOPS}
    frames = stays.place.user_frames
    inner = outside_backward(frames_within(stays, fork.one)) if fork is not None and fork.one in frames else ()
    inner = [frame for frame in inner if frame in frames]
    sources = [source for frame in inner if (source := source_at(stays, frame)) is not None]
    every = [
        around
        for source in sources or [context]
        for around in source.enclosing
        if around.kind in LOOPS
        and not (fork is not None and source == fork.one_source and around.line in theirs)
        and not (around.gives and fork is not None and source != fork.one_source)
    ]
    loop = loop_around(context)
    return every or ([loop] if loop is not None else [])


def is_of_data(leaves: Enclosing) -> bool:
    """Whether what leaves a loop does so because there is no more data: `if batch is None: break`."""
    return _ENDS_WITH_DATA.search(leaves.text.removeprefix("except ").strip()) is not None


def holds(condition: str, values: Mapping[str, str]) -> bool | None:
    """What a rank's variables say to a condition; None where it asks for more than numbers and truth values that were
    read. An attribute may have been set anew since, so what it denies now is not denied."""
    tree = parsed(condition)
    asks = tree is not None and any(isinstance(node, ast.Attribute) for node in ast.walk(tree))
    found = verdict(condition, values)
    return found if found or not asks else None


def verdict(condition: str, values: Mapping[str, str]) -> bool | None:
    """What they say now."""

    def known(node: ast.expr) -> float | None:
        return _number(values.get(ast.unparse(node), "")) if isinstance(node, ast.Name | ast.Attribute) else None

    return says(condition, known)


def _number(text: str) -> float | None:
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return None
