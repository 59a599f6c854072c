"""Words in which the scenarios of users/ and strangers/ are written, and which half each belongs to."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal

from tests.lab.hangs.training import Scenario

Half = Literal["tune", "keep"]
USERS = "users/"
HEALTHY = "users/healthy/"
STRANGERS = "strangers/"


def half(name: str) -> Half:
    """Which half a scenario belongs to."""
    return "tune" if hashlib.sha256(name.encode()).digest()[0] % 2 else "keep"


def hangs(name: str, causes: tuple[str, ...], culprits: tuple[int, ...], *lines: str, ranks: int = 2) -> Scenario:
    """One that hangs."""
    return Scenario(name, f"{USERS}{name}.py", causes, culprits, lines, ranks=ranks, healthy=False)


def gets_on(name: str, ranks: int = 2, folder: str = HEALTHY) -> Scenario:
    """One of which no look may say that it hangs."""
    return Scenario(name, f"{folder}{name}.py", (), (), ranks=ranks, states=("running", "slow"))


def stranger(name: str, causes: tuple[str, ...], culprits: tuple[int, ...], *lines: str, ranks: int = 2) -> Scenario:
    """One that hangs, after a thread of somebody whose job did."""
    return hangs(name, causes, culprits, *lines, ranks=ranks)._replace(script=f"{STRANGERS}{name}.py")


def twins(scenarios: Iterable[Scenario]) -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    for scenario in scenarios:
        twin = gets_on(f"{scenario.name}_well", ranks=scenario.ranks)
        yield twin._replace(script=f"{STRANGERS}{scenario.name}.py", launcher=scenario.launcher)
