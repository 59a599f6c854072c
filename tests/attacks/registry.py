"""The attacks that tests hold: each a way in and the weakness it tries, counted once whatever its parameters.

    @attack("files", way="checkpoint: pickle of shared storages", weakness="--fix writes more than it read")
    def test_...

    @attacks("secrets", "value", ("capture --pid --redact", "an option's value survives", "x"), ...)   # one test a row
    @attacks("text", "host", ("a shell word is gained", "a;b"), ..., way="hang --from: host name in the evidence")

`python -m tests.attacks` prints the counts by surface; docs/security.md shows them.
"""

from collections.abc import Callable
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


def attacks(surface: Surface, names: str, *cases: tuple[Any, ...], way: str = "") -> pytest.MarkDecorator:
    """A test that is one attack a case: (way, weakness, value of each name).

    `way`: what all ways have before them ("check --from:"), or the one way of all, which the cases then leave out.
    """
    listed = (
        list(cases)
        if not way
        else [(f"{way} {case[0]}", *case[1:]) if way[-1] == ":" else (way, *case) for case in cases]
    )
    ATTACKS.extend(Attack(surface, *case[:2]) for case in listed)
    return pytest.mark.parametrize(names, [pytest.param(*case[2:], id=f"{case[0]}: {case[1]}"[:80]) for case in listed])
