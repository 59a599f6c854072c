"""What the ranks' own variables say: in which round of the loop each is, and what one holds unlike the others.

Only what all ranks have in common is compared: the functions that all are in, from the outermost inwards, as far as
they have called each other from the same lines. Counters of loops tell who is ahead; what else differs may be why.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.hang.conditions import parsed
from gpudoctor.hang.job import Rank
from gpudoctor.hang.rank_conditions import RANK_WORDS
from gpudoctor.hang.relation import LOOPS, same_function, source_at
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Enclosing, Frame, FrameVariables

_COUNTS = lazy_re(r"step|epoch|iter|index|idx|batch_(?:idx|nr)|_?\b[ijkn]\b|seen|done|count|offset|position", re.I)
"""Names of what changes from round to round: that it differs follows from where the ranks are."""
_PLACES = lazy_re(
    r"stage|last|first|head|leader|root|src|dst|peer|next|prev|device|node|host|gpu|seed|port|pid|_id\b|world|local",
    re.I,
)
"""Names of a rank's place among the others, which is meant to differ."""
_NUMBER_OF = lazy_re(r"(?:^|_)(?:num|n|nr|per|number|nproc)_|_per_", re.I)
"""Names of how many there are of something, which is meant to be alike: `gpus_per_node`, `num_devices`."""
_OWN_COUNTER = lazy_re(r"([A-Za-z_]\w*(?:\.\w+)+)(?= in range\()")
"""What an object counts a loop by: `for self.epoch in range(9)`; of a `while`, its body has to show who raises it."""
_WORDS = lazy_re(r"[A-Za-z_]\w*")
_DECISIVE = lazy_re(r"-?[0-9]+|True|False")
"""Values of which a decision may be made: no fractions, which each rank computes of its own data, and no sizes, members
or types, which are no decisions."""
_TENSOR = lazy_re(r"([a-z]\w*)\[([0-9]+(?:, [0-9]+)*)\]")
Level = Mapping[int, Frame]
"""One function that all ranks are in: the frame of each, by rank."""


def levels_of(ranks: Sequence[Rank], *, own: bool = False) -> list[Level]:
    """The functions that all ranks are in, outermost first, up to the first in which their lines differ. Of Python's
    own stacks: where a rank's GPU is, a flight recorder tells. `own`: of the program, without those of a framework's
    loop."""
    found: list[Level] = []
    every = (own_variables(rank) if own else rank.evidence.variables for rank in ranks)
    stacks = ([held.frame for held in reversed(variables)] for variables in every)
    for frames in zip(*stacks, strict=False):
        first = frames[0]
        if any(frame.file != first.file or not same_function(frame.function, first.function) for frame in frames):
            break
        found.append({rank.rank: frame for rank, frame in zip(ranks, frames, strict=True)})
        if any(frame.line != first.line for frame in frames):
            break
    return found


def own_variables(rank: Rank) -> list[FrameVariables]:
    """What the program's own frames hold, innermost first."""
    return [held for held in rank.evidence.variables if is_program(held.frame.file)]


def held_at(rank: Rank, frame: Frame) -> Mapping[str, str]:
    """What a rank's variables hold in a frame, by name."""
    return next((own.values for own in rank.evidence.variables if own.frame == frame), {})


class RoundsApart(NamedTuple):
    """Ranks that are in an earlier round of a loop than the others."""

    behind: list[Rank]
    ahead: list[Rank]
    loop: Enclosing
    counter: str
    rounds: tuple[int, int]
    """Of `behind`, and of `ahead`."""


def rounds_apart(ranks: Sequence[Rank]) -> RoundsApart | None:
    """Who is in an earlier round of the outermost loop around all in whose counters ranks differ; None where all are
    in one round, in more than two, or it is not told."""
    loop, counter, by_round = _rounds(ranks)
    if loop is None or len(by_round) != 2:
        return None
    low, high = sorted(by_round)
    return RoundsApart(by_round[low], by_round[high], loop, counter, (low, high))


def by_rounds(ranks: Sequence[Rank]) -> list[list[Rank]]:
    """Ranks by the round in which they are, the earliest first: where neighbours exchange, each may be one apart."""
    _, _, by_round = _rounds(ranks)
    return [by_round[number] for number in sorted(by_round)] if len(by_round) > 1 else []


def furthest_behind(ranks: Sequence[Rank]) -> list[Rank]:
    """Who is in the earliest of several rounds."""
    return next(iter(by_rounds(ranks)), [])


def _rounds(ranks: Sequence[Rank]) -> tuple[Enclosing | None, str, Mapping[int, list[Rank]]]:
    """The outermost loop around all in whose counters ranks differ, with what it counts by, and who is in which."""
    for level in levels_of(ranks):
        for loop in _common_loops(ranks, level):
            by_round: defaultdict[int, list[Rank]] = defaultdict(list)
            counter = ""
            for rank in ranks:
                counter, number = _counter(loop, held_at(rank, level[rank.rank]), level[rank.rank].line)
                if number is None:
                    return None, "", {}
                by_round[number].append(rank)
            if len(by_round) > 1:
                return loop, counter, by_round
    return None, "", {}


def in_one_round(one: Rank, other: Rank) -> bool:
    """Whether two ranks are seen to be in the same round of all loops that are around both."""
    counters = [
        [_counter(loop, held_at(rank, level[rank.rank]), level[rank.rank].line)[1] for rank in (one, other)]
        for level in levels_of((one, other))
        for loop in _common_loops((one, other), level)
    ]
    return bool(counters) and all(mine is not None and mine == theirs for mine, theirs in counters)


def round_of(rank: Rank, loop: Enclosing, frame: Frame) -> int | None:
    """In which round of a loop a rank is, by the counter that a frame holds."""
    return _counter(loop, held_at(rank, frame), frame.line)[1]


def last_round(stays: Rank, left: Rank, loop: Enclosing) -> tuple[int, int] | None:
    """In which round of a loop one rank is, and which was the last one of another that has left it: Python keeps what a
    loop has counted by in the function around it."""
    for mine in stays.evidence.variables:
        source = source_at(stays, mine.frame)
        if source is None or loop not in source.enclosing:
            continue
        for theirs in left.evidence.variables:
            same = mine.frame.file == theirs.frame.file and same_function(mine.frame.function, theirs.frame.function)
            _, now = _counter(loop, mine.values, mine.frame.line)
            _, last = _counter(loop, theirs.values, theirs.frame.line) if same else ("", None)
            if now is not None and last is not None:
                return now, last
    return None


class BegunApart(NamedTuple):
    """A loop around two ranks, and the unlike numbers with which they have begun it."""

    loop: Enclosing
    name: str
    numbers: tuple[str, str]
    frame: Frame


def first_numbers(one: Rank, other: Rank) -> BegunApart | None:
    """With which numbers two ranks have begun a loop around both, where these differ and its end does not."""
    for level in levels_of((one, other)):
        for loop in _common_loops((one, other), level):
            name = _first_number(loop)
            mine, theirs = (held_at(rank, level[rank.rank]).get(name, "") for rank in (one, other))
            if mine != theirs and mine.isdecimal() and theirs.isdecimal():
                return BegunApart(loop, name, (mine, theirs), level[one.rank])
    return None


def _first_number(loop: Enclosing) -> str:
    """ "start" of `for epoch in range(start, 100)`: where the last number is a setting, and no end of a rank's own."""
    call = parsed(loop.text.partition(" in ")[2])
    if loop.kind != "for" or not isinstance(call, ast.Call) or ast.unparse(call.func) != "range" or len(call.args) < 2:
        return ""
    first, last = call.args[:2]
    setting = isinstance(last, ast.Constant | ast.Attribute) or (isinstance(last, ast.Name) and last.id.isupper())
    return first.id if isinstance(first, ast.Name) and setting and not RANK_WORDS.search(first.id) else ""


def _common_loops(ranks: Sequence[Rank], level: Level) -> list[Enclosing]:
    """The loops around the lines of all ranks in one function, outermost first."""
    contexts = [source_at(rank, level[rank.rank]) for rank in ranks]
    first = contexts[0]
    if first is None or None in contexts:
        return []
    loops = (around for around in reversed(first.enclosing) if around.kind in LOOPS)
    return [loop for loop in loops if all(context is not None and loop in context.enclosing for context in contexts)]


def _counter(loop: Enclosing, values: Mapping[str, str], line: int) -> tuple[str, int | None]:
    """What a loop counts with, and how far who stands at a line is: "step" of `step in range(1000)`, of `step < 1000`,
    of `step += 1` in its body, which has been counted already below that."""
    counted = values.get(loop.counter, "")
    if loop.counter and counted.lstrip("-").isdecimal():
        return loop.counter, int(counted) - (line > loop.counted_at)
    own = _OWN_COUNTER.match(loop.text)
    names = _WORDS.findall(loop.text.partition(" in ")[0] if loop.kind == "for" else loop.text)
    names = [own[1]] if own is not None else names
    numbers = ((name, values.get(name, "")) for name in names)
    return next(((name, int(text)) for name, text in numbers if text.lstrip("-").isdecimal()), ("", None))


class Unlike(NamedTuple):
    """A variable that some ranks hold otherwise than all others."""

    name: str
    odd: list[Rank]
    own: str
    common: str
    frame: Frame
    """Of one of the odd ones."""


def unlike(ranks: Sequence[Rank]) -> Iterator[Unlike]:
    """Variables of functions that all ranks are in, of which the fewer ranks hold one value and all others another:
    no counters, no tensors, none that are called after the rank or its place, and no yes or no of the first or the
    last rank, which are often asked whether they are it."""
    for level in levels_of(ranks, own=True):
        values = {rank.rank: held_at(rank, level[rank.rank]) for rank in ranks}
        context = source_at(ranks[0], level[ranks[0].rank])
        loops = context.enclosing if context is not None else ()
        targets = {
            word for loop in loops if loop.kind == "for" for word in _WORDS.findall(loop.text.partition(" in ")[0])
        }
        for name in values[ranks[0].rank]:
            own_names = (_COUNTS, RANK_WORDS) if _NUMBER_OF.search(name) else (_COUNTS, RANK_WORDS, _PLACES)
            if "." in name or name in targets or any(known.search(name) for known in own_names):
                continue
            by_value: defaultdict[str, list[Rank]] = defaultdict(list)
            for rank in ranks:
                by_value[values[rank.rank].get(name, "")].append(rank)
            if len(by_value) != 2 or not all(map(_DECISIVE.fullmatch, by_value)):
                continue
            (own, odd), (common, others) = sorted(by_value.items(), key=lambda each: len(each[1]))
            at_an_end = {rank.rank for rank in odd} & {ranks[0].rank, ranks[-1].rank}
            if len(odd) < len(others) and not (at_an_end and own in ("True", "False")):
                yield Unlike(name, odd, own, common, level[odd[0].rank])


def tensor_at(rank: Rank, frame: Frame, name: str) -> tuple[str, int] | None:
    """Type and number of elements of a tensor that a frame holds."""
    if (found := _TENSOR.fullmatch(held_at(rank, frame).get(name, ""))) is None:
        return None
    elements = 1
    for size in found[2].split(", "):
        elements *= int(size)
    return found[1], elements
