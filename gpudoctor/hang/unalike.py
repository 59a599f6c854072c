"""What a statement of the program asks for and ranks hold unlike: numbers and truth values of one name in one function.

What a loop counts by differs because ranks are elsewhere, and a rank's number is meant to: neither tells anything.
"""

import ast
from collections.abc import Mapping, Sequence

from msgspec import structs

from gpudoctor.causes import CAUSES
from gpudoctor.hang.conditions import parsed
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.loops import verdict
from gpudoctor.hang.rank_conditions import RANK_WORDS, is_rank
from gpudoctor.hang.relation import LOOPS, same_function
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.variables import held_at
from gpudoctor.hang.words import ranks_of
from gpudoctor.read.job.attributes import TEXT
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext

MOST_TOLD = 4
Held = Mapping[str, Sequence[Rank]]
"""Ranks by what they hold."""


def unalike(ranks: Sequence[Rank], statement: Enclosing, source: SourceContext) -> dict[str, Held]:
    """By name, what these ranks hold unlike of what a statement of a function asks for."""
    tree = parsed(statement.text.partition(" in ")[2] if statement.kind == "for" else statement.text)
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)] if tree is not None else []
    loops = [around for around in source.enclosing if around.kind in LOOPS]
    counted = {name for loop in loops for name in (loop.counter, *_targets(loop))}
    frames = [_held(rank, source) for rank in ranks]
    found: dict[str, Held] = {}
    names = dict.fromkeys(ast.unparse(node) for node in asked if not is_rank(node))
    called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    inner = {name for own in frames for name in own if any(name.startswith(f"{each}.") for each in called)}
    for name in (*names, *sorted(inner)):  # what a function that is asked remembers of the functions around it
        by_value: dict[str, list[Rank]] = {}
        for rank, values in zip(ranks, frames, strict=True):
            if name in values and name not in counted:
                by_value.setdefault(values[name], []).append(rank)
        if len(by_value) > 1:
            found[name] = by_value
    return found


def found_unlike(one: Rank, other: Rank, statement: Enclosing, source: SourceContext) -> bool:
    """Whether what two ranks hold says yes to a condition on one of them, and no on the other."""
    verdicts = [verdict(statement.text, _held(rank, source)) for rank in (one, other)]
    return None not in verdicts and verdicts[0] is not verdicts[1]


def given_unalike(ranks: Sequence[Rank], frame: Frame, text: str) -> dict[str, Held]:
    """By name, what these ranks hold unlike of what a call is given at a line where all of them are."""
    tree = parsed(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    given = [part for call in calls for part in (*call.args, *(word.value for word in call.keywords))]
    names = dict.fromkeys(node.id for part in given for node in ast.walk(part) if isinstance(node, ast.Name))
    found: dict[str, Held] = {}
    for name in names:
        by_value: dict[str, list[Rank]] = {}
        for rank in ranks:
            by_value.setdefault(held_at(rank, frame).get(name, ""), []).append(rank)
        if len(by_value) > 1 and "" not in by_value and not RANK_WORDS.search(name):
            found[name] = by_value
    return found


def _targets(loop: Enclosing) -> list[str]:
    target = parsed(loop.text.partition(" in ")[0]) if loop.kind == "for" else None
    return [ast.unparse(node) for node in ast.walk(target)] if target is not None else []


def _held(rank: Rank, source: SourceContext) -> Mapping[str, str]:
    """What the rank's innermost frame of that function holds."""
    for own in rank.evidence.variables:
        if own.frame.file == source.file and same_function(own.frame.function, source.function):
            return own.values
    return {}


def with_values(job: HangJob, causes: Sequence[HangCause]) -> tuple[HangCause, ...]:
    """The first cause with what ranks hold unlike, where it names a statement at which they have parted."""
    if not causes or CAUSES[causes[0].cause].hangs_by != "disagreement" or not (told := _told(job, causes[0])):
        return (*causes,)
    first = causes[0]
    seen = tuple(Seen(f"variables of {first.where.function if first.where else ''}", text) for text in told)
    summary = f"{first.summary}; there {told[0]}"
    return structs.replace(first, summary=summary, evidence=(*first.evidence, *seen)), *causes[1:]


def _told(job: HangJob, cause: HangCause) -> list[str]:
    if (place := cause.where) is None:
        return []
    for rank in job.ranks:
        for source in rank.evidence.sources:
            for own in (*source.enclosing, *source.exits) if source.file == place.file else ():
                if own.line == place.line and own.text:
                    return [words(*each) for each in list(unalike(job.ranks, own, source).items())[:MOST_TOLD]]
    return []


def words(name: str, held: Held) -> str:
    """ "self.every = 4 on ranks 0-1, 40 on rank 2"; of texts, which are not kept, only who has the same."""
    if all(value.startswith(TEXT) for value in held):
        return f"{name} is one text on {', another on '.join(map(ranks_of, [*held.values()][:MOST_TOLD]))}"
    values = [(_short(value), ranks_of(ranks)) for value, ranks in list(held.items())[:MOST_TOLD]]
    return f"{name} = " + ", ".join(f"{value} on {ranks}" for value, ranks in values)


def _short(value: str) -> str:
    try:
        return f"{float(value):.6g}" if "." in value else value
    except ValueError:
        return value
