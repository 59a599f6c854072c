"""The attacks that tests hold: each a way in and the weakness it tries, counted once whatever its parameters.

    @attack("files", way="checkpoint: pickle of shared storages", weakness="--fix writes more than it read")
    def test_...

    @attacks("secrets", "way", ("capture --pid --redact", "an option's value survives"), ...)   # one test a pair

`python -m tests.attacks` prints the counts by surface; docs/security.md shows them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import pytest

Surface = Literal["text", "files", "processes", "channels", "surroundings", "secrets", "faults"]
"""text:         what reaches the terminal, a report or a line to paste.
files:        checkpoints, dumps, snapshots, logs, manifests, saved answers.
processes:    live processes of another user, and what they say of themselves.
channels:     join, ssh, srun, and what speaks through them.
surroundings: the current folder, PATH, PYTHONPATH, sitecustomize, the environment.
secrets:      what must not be recorded or sent.
faults:       kill -9, double Ctrl-C, full disks, no /proc, few descriptors, little memory, clock jumps.
"""
SURFACES: tuple[str, ...] = get_args(Surface)

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Attack:
    """A way in ("hang --from: host name in the evidence") and the weakness it tries ("a shell word is gained")."""

    surface: str
    way: str
    weakness: str


ATTACKS: list[Attack] = []
"""In the order in which the modules were imported; `python -m tests.attacks` imports them all."""


def attack(surface: Surface, *, way: str, weakness: str) -> Callable[[Test], Test]:
    """A test that is one attack."""

    def registered(test: Test) -> Test:
        ATTACKS.append(Attack(surface, way, weakness))
        return test

    return registered


def attacks(surface: Surface, names: str, cases: Iterable[tuple[str, str, tuple[Any, ...]]]) -> pytest.MarkDecorator:
    """A test that is one attack a case: (way, weakness, the values of `names`)."""
    listed = list(cases)
    ATTACKS.extend(Attack(surface, way, weakness) for way, weakness, _ in listed)
    return pytest.mark.parametrize(
        names, [pytest.param(*values, id=f"{way}: {weakness}"[:80]) for way, weakness, values in listed]
    )
