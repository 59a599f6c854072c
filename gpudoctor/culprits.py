"""Findings gathered by their culprit: what a check explains of others' findings is one trouble with it, and one fix.

Which check explains which is said by the follower (`Check.follows`, or `Problem.follows` where that depends on what was
found); here only the places are compared.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from gpudoctor.check import Problem, Severity
from gpudoctor.severity import WORST_FIRST

T = TypeVar("T")


class OneTrouble(Struct, Generic[T], frozen=True):
    """One trouble: the finding that explains the others, and these."""

    id: str
    leads: T
    severity: Severity
    """The worst of them."""
    others: tuple[tuple[str, T], ...] = ()
    """(id, finding) of what follows from it."""


def culprits(
    pairs: Sequence[tuple[str, T]], problem_of: Callable[[T], Problem], places_of: Callable[[T], Iterable[object]]
) -> list[OneTrouble[T]]:
    """(id, finding) -> one culprit a trouble, errors first, otherwise in the order of the findings.

    `places_of`: where a finding was made (GPUs, nodes); none is everywhere.
    """
    places = [frozenset(places_of(finding)) for _, finding in pairs]

    def leader(number: int, passed: frozenset[int] = frozenset()) -> int:
        for id in problem_of(pairs[number][1]).follows:
            for other, (others_id, _) in enumerate(pairs):
                if others_id == id and other != number and other not in passed and _meet(places[number], places[other]):
                    return leader(other, passed | {number})
        return number

    groups: dict[int, list[int]] = {}
    for number in range(len(pairs)):
        groups.setdefault(leader(number), []).append(number)
    made = []
    for head, members in groups.items():
        id, finding = pairs[head]
        worst = min((problem_of(pairs[member][1]).severity for member in members), key=WORST_FIRST.__getitem__)
        made.append(OneTrouble(id, finding, worst, tuple(pairs[member] for member in members if member != head)))
    return sorted(made, key=lambda trouble: WORST_FIRST[trouble.severity])


def _meet(follower: frozenset[object], leader: frozenset[object]) -> bool:
    """Whether what was found there explains what was found here: everywhere, or at each of the follower's places."""
    return not leader or (bool(follower) and follower <= leader)
