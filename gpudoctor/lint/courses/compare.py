"""The courses of two ranks beside each other: where one comes to a collective and the other does not."""

import ast
from collections.abc import Sequence

from msgspec import Struct, structs

from gpudoctor.lint.courses.events import CourseCollective, CourseFork, CourseRound, Event, Leave
from gpudoctor.lint.courses.follow import collectives


class Parting(Struct, frozen=True):
    """Where two ranks part."""

    node: ast.AST
    """What one of them comes to, or where it leaves."""
    call: str
    one: bool
    """It is the first rank that comes to it."""
    other: CourseCollective | None
    """What the other rank comes to instead; None: nothing."""
    leaves: str = ""
    """It leaves there: break, return; the other goes on."""
    below: ast.AST | None = None
    """The condition by which they part, where that is known."""


def parting(
    one: Sequence[Event], other: Sequence[Event], ranks: tuple[int, int], after: bool = False
) -> Parting | None:
    """The first place where they part; None: nowhere that is known. `after`: a collective follows behind."""
    mine, theirs = _shared(one, ranks), _shared(other, ranks)
    a = b = 0
    while a < len(mine) or b < len(theirs):
        first = mine[a] if a < len(mine) else None
        second = theirs[b] if b < len(theirs) else None
        if isinstance(first, CourseCollective) and first.is_weak:
            a += 1
            continue
        if isinstance(second, CourseCollective) and second.is_weak:
            b += 1
            continue
        rest_of_other, rest_of_one = theirs[b:], mine[a:]
        # What one of them alone enters is looked through before what the other comes to next.
        if isinstance(first, CourseRound) and isinstance(second, CourseFork) and not _comes(first, rest_of_other):
            mine[a : a + 1] = _shared(_entered(first), ranks)
        elif isinstance(second, CourseRound) and isinstance(first, CourseFork) and not _comes(second, rest_of_one):
            theirs[b : b + 1] = _shared(_entered(second), ranks)
        elif isinstance(first, CourseFork) and not _matches(first, second):
            found = _of_fork(first, rest_of_other, True, after)
            if found is not None:
                return found
            a += 1
        elif isinstance(second, CourseFork) and not _matches(second, first):
            found = _of_fork(second, rest_of_one, False, after)
            if found is not None:
                return found
            b += 1
        elif isinstance(first, CourseFork) and isinstance(second, CourseFork):
            found = parting(first.yes, second.yes, ranks, after or b + 1 < len(theirs))
            found = found or parting(first.no, second.no, ranks, after or b + 1 < len(theirs))
            if found is not None:
                return found
            a, b = a + 1, b + 1
        elif isinstance(first, CourseRound) and isinstance(second, CourseRound) and first.node is second.node:
            weak = first.is_loop and bool(collectives(second.events))
            # What follows behind a function, or behind a loop, is come to by who leaves it.
            found = parting(first.events, second.events, ranks, weak)
            if found is not None:
                return found
            a, b = a + 1, b + 1
        elif isinstance(first, Leave) or isinstance(second, Leave):
            return None
        elif isinstance(first, CourseRound):
            mine[a : a + 1] = _shared(_entered(first), ranks)
        elif isinstance(second, CourseRound):
            theirs[b : b + 1] = _shared(_entered(second), ranks)
        elif isinstance(first, CourseCollective) and isinstance(second, CourseCollective) and first.call == second.call:
            a, b = a + 1, b + 1
        elif isinstance(first, CourseCollective):
            meets = second if isinstance(second, CourseCollective) else None
            return Parting(first.node, first.call, True, meets, below=first.below)
        elif isinstance(second, CourseCollective):
            return Parting(second.node, second.call, False, None, below=second.below)
    return None


def _entered(entered: CourseRound) -> list[Event]:
    """What a round has that only one of them enters: its ways out lead to what follows it, where the other is."""
    return _without(entered.events, ("break", "continue") if entered.is_loop else ("return",))


def _without(events: Sequence[Event], ways: Sequence[str]) -> list[Event]:
    left: list[Event] = []
    for event in events:
        if isinstance(event, CourseFork):
            yes, no = (tuple(_without(side, ways)) for side in (event.yes, event.no))
            event = structs.replace(event, yes=yes, no=no)
        elif isinstance(event, CourseRound) and event.is_loop and "return" in ways:
            event = structs.replace(event, events=tuple(_without(event.events, ways)))
        if not isinstance(event, Leave) or event.how not in ways:
            left.append(event)
    return left


def _matches(fork: CourseFork, event: Event | None) -> bool:
    return isinstance(event, CourseFork) and event.node is fork.node


def _comes(entered: CourseRound, others: Sequence[Event]) -> bool:
    return any(isinstance(each, CourseRound) and each.node is entered.node for each in others)


def _of_fork(fork: CourseFork, others: Sequence[Event], is_one: bool, after: bool) -> Parting | None:
    """A condition that only one of them comes to: what stands below it, the other does not do."""
    for events in (fork.yes, fork.no):
        inside = [each for each in collectives(events) if not each.is_weak]
        if inside:
            test = fork.node.test if isinstance(fork.node, (ast.If, ast.While, ast.IfExp)) else None
            # Of what the other does without that condition, this one does not always.
            is_others = any(each.node is inside[0].node for each in collectives(others))
            return Parting(inside[0].node, inside[0].call, is_one != is_others, None, below=test)
        leaves = [each for each in events if isinstance(each, Leave) and each.how in ("break", "return")]
        if leaves and (after or any(True for _ in collectives(others))):
            return Parting(leaves[0].node, "", is_one, next(iter(collectives(others)), None), leaves[0].how)
    return None


class DecidedAlone(Struct, frozen=True):
    """What one rank does by what it alone knows."""

    node: ast.AST
    """The condition."""
    call: CourseCollective | None
    """What it comes to or misses by that; of one that leaves, the next that it leaves to the others."""
    leaves: str = ""


def decided_alone(events: Sequence[Event], after: bool = False) -> DecidedAlone | None:
    """The first place where a rank's own data decide whether it comes to what the others wait in. `after`: more of
    that follows behind these events, and not for who leaves them."""
    following: list[CourseCollective | None] = [None]
    for event in reversed(events[1:]):
        following.append(next(iter(collectives((event,))), following[-1]))
    for event, rest in zip(events, reversed(following), strict=False):
        found = None
        if isinstance(event, CourseRound):
            # what follows behind a function, or behind a loop, is come to by who leaves it
            found = decided_alone(event.events, event.is_loop and bool(collectives(event.events)))
        elif isinstance(event, CourseFork):
            found = _by_own_data(event, rest, after) if event.is_own else None
            for branch in (event.yes, event.no):
                found = found or decided_alone(branch, after or rest is not None)
        if found is not None:
            return found
    return None


def _by_own_data(fork: CourseFork, rest: CourseCollective | None, after: bool) -> DecidedAlone | None:
    for branch, other in ((fork.yes, fork.no), (fork.no, fork.yes)):
        theirs = {each.call for each in collectives(other)}
        alone = next((each for each in collectives(branch) if each.call not in theirs), None)
        if alone is not None:
            return DecidedAlone(fork.node, alone)
        how = next((each.how for each in branch if isinstance(each, Leave)), "")
        if any(isinstance(each, Leave) for each in other):
            continue
        if (how in ("break", "return") and (after or rest is not None)) or (how == "continue" and rest is not None):
            return DecidedAlone(fork.node, rest, how)
    return None


def _shared(events: Sequence[Event], ranks: tuple[int, int]) -> list[Event]:
    """What both of them would come to, without what says nothing."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, CourseCollective):
            if event.group is None or all(rank in event.group for rank in ranks):
                found.append(event)
        elif (
            isinstance(event, Leave)
            or (isinstance(event, CourseFork) and (_leaves(event) or collectives((event,))))
            or (isinstance(event, CourseRound) and (collectives((event,)) or _leaves(event)))
        ):
            found.append(event)
    return found


def _leaves(event: Event) -> bool:
    if isinstance(event, CourseFork):
        return any(isinstance(each, Leave) or _leaves(each) for each in (*event.yes, *event.no))
    return isinstance(event, CourseRound) and any(map(_leaves, event.events))
