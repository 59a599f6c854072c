"""The ranks that a text hands out itself: by the words, options and variables of plain starts, or fixed in a program.

torch/distributed/rendezvous.py of 2.13: tcp:// and env:// take the rank as it is told. Rank 0 opens the store, and
everybody waits until as many as the world has are there; nobody looks whether two say the same.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct, structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Word
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts
from gpudoctor.lint.python_values import PythonValues

BY_OPTION = {
    "rank": lazy_re(r"--(?:(?:node|machine)[-_])?rank"),
    "world": lazy_re(r"--(?:world|dist)[-_]size|--num[-_]machines"),
}
"""As programs call them of which the text has the start alone."""
WAITS = lazy_re(r"^[ \t]*wait\b", re.MULTILINE)


class HandRank(Struct, frozen=True):
    """A start that says which rank it is."""

    launch: LintLaunch
    rank: int
    world: int | None


def inits(code: PythonCode) -> Iterator[ast.Call]:
    """The calls that join a group."""
    yield from (call for call in code.calls if code.torch_name(call.func) == "init_process_group")


def rank_told(start: PythonValues, init: ast.Call) -> int | None:
    """The rank with which a call joins: its argument, else RANK where env:// asks for it."""
    told = argument(init, "rank", 4)
    return _whole(start.value(told) if told is not None else _of_environment(start, init, "RANK"))


def world_told(start: PythonValues, init: ast.Call) -> int | None:
    """The world that it joins."""
    told = argument(init, "world_size", 3)
    return _whole(start.value(told) if told is not None else _of_environment(start, init, "WORLD_SIZE"))


def values_of(code: PythonCode, launch: LintLaunch) -> PythonValues:
    """What a start makes of a program; a launcher sets the variables of ranks anew."""
    is_plain = launch.launcher == "python" and not launch.around
    return (
        PythonValues(code, launch)
        if is_plain
        else PythonValues(code, structs.replace(launch, invocation=_bare(launch)))
    )


def _bare(launch: LintLaunch) -> Invocation:
    return structs.replace(launch.invocation, settings={})


def _of_environment(start: PythonValues, init: ast.Call, name: str) -> object:
    method = argument(init, "init_method", 1)
    is_environment = method is None or str(start.value(method)).startswith("env://")
    return start.variable(name) if is_environment and argument(init, "store", 5) is None else None


def _whole(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value, re.ASCII):
        return int(value)
    return value if type(value) is int else None


def meetings(job: LintJob) -> Iterator[tuple[HandRank, ...]]:
    """Starts of one program that are meant to meet, two or more, each with the rank that it is told."""
    told = [each for launch in job.launches[: look.SIBLINGS] if (each := _told(job, launch)) is not None]
    programs: dict[str, list[HandRank]] = {}
    for each in told:
        programs.setdefault(each.launch.script.shown if each.launch.script is not None else "", []).append(each)
    for every in programs.values():
        yield from (group for group in _together(job, every) if len(group) > 1)


def _told(job: LintJob, launch: LintLaunch) -> HandRank | None:
    """What a plain start says, by its program where that stands in the text, else by the usual names."""
    if launch.launcher != "python" or launch.around or look.from_platform(job, launch) or launch.invocation.conditional:
        return None
    for code, launches in codes_and_starts(job):
        if launch in launches:
            start = PythonValues(code, launch)
            joins = list(inits(code))
            rank = rank_told(start, joins[0]) if len(joins) == 1 else None
            return HandRank(launch, rank, world_told(start, joins[0])) if rank is not None else None
    rank, world = (_by_name(launch, kind, name) for kind, name in (("rank", "RANK"), ("world", "WORLD_SIZE")))
    return HandRank(launch, rank, world) if rank is not None and world is not None else None


def _by_name(launch: LintLaunch, kind: str, variable: str) -> int | None:
    words: Sequence[Word] = launch.script_words
    for index, word in enumerate(words):
        name, equals, value = word.shown.partition("=")
        if BY_OPTION[kind].fullmatch(name):
            return _whole(value if equals else words[index + 1].text if index + 1 < len(words) else None)
    setting = launch.invocation.settings.get(variable)
    return _whole(setting.word.text) if setting is not None and setting.exported else None


def _together(job: LintJob, every: list[HandRank]) -> Iterator[tuple[HandRank, ...]]:
    """By place and turn. Several places: the n-th turn of each. One place: what runs side by side; lines that follow
    each other with other ranks are for other machines, for none of them would let the next begin."""
    places: dict[object, list[list[HandRank]]] = {}
    for place, starts in groupby(every, lambda each: _place(job, each.launch)):
        places.setdefault(place, []).extend(_turns(job, list(starts)))
    if len(places) > 1:
        most = max(map(len, places.values()))
        for turn in range(most):
            yield tuple(each for turns in places.values() if turn < len(turns) for each in turns[turn])
        return
    turns = next(iter(places.values()))
    in_front = [turn[0] for turn in turns if len(turn) == 1]
    if len(in_front) == len(turns) and len({each.rank for each in in_front}) > 1:
        size = in_front[0].world or len(in_front)
        yield from (tuple(in_front[at : at + size]) for at in range(0, len(in_front), max(size, 1)))
        return
    yield from map(tuple, turns)


def _place(job: LintJob, launch: LintLaunch) -> object:
    return look.node_of(job, launch)


def _turns(job: LintJob, starts: list[HandRank]) -> Iterator[list[HandRank]]:
    """Starts of one machine: those in the background run side by side until `wait`, or until one in front."""
    turn: list[HandRank] = []
    for each in starts:
        if turn and WAITS.search(job.text, turn[-1].launch.invocation.span.end, each.launch.invocation.span.start):
            yield turn
            turn = []
        turn.append(each)
        if not each.launch.invocation.background:
            yield turn
            turn = []
    if turn:
        yield turn
