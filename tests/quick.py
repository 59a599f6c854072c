"""Which tests are quick: those that start no process, by themselves or with what they call in tests/ and its fixtures.

`python -m pytest -m quick` is what one runs while one works, and has no list: a test is quick unless its code, or that
of a helper of tests/ which it names, names what starts processes, or torch. What tries thousands of inputs is not quick
either: attacks, and properties of hypothesis.
"""

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator

import pytest

STARTERS = ("subprocess", "multiprocessing", "pty", "torch", "lightning", "accelerate")
"""Modules: whoever names one, or something out of one, is not quick."""
MANY_INPUTS = ("tests/attacks/", "tests/test_hostile.py")
LAB = ("tests.lab.hosts", "tests.lab.sshd", "tests.lab.slurm", "tests.lab.nvidia", "tests.lab.warm")
ROOMS = (
    "gpudoctor.active",
    "gpudoctor.amp.run",
    "gpudoctor.checkpoint.run",
    "gpudoctor.fleet.followed",
    "gpudoctor.fleet.local",
    "gpudoctor.fleet.ranks",
)
"""Rooms that work in processes of their own."""
PRODUCT = frozenset(("LocalFleet", "examine", "main", "CliRunner", "start", "gather"))
"""What of gpudoctor starts processes of its own."""


def is_quick(item: pytest.Item) -> bool:
    """Whether neither the test nor its fixtures start anything."""
    fixtures = getattr(item, "_fixtureinfo", None)
    definitions = (each for several in fixtures.name2fixturedefs.values() for each in several) if fixtures else ()
    functions = [getattr(item, "function", None), *(each.func for each in definitions)]
    if item.nodeid.startswith(MANY_INPUTS) or hasattr(functions[0], "hypothesis"):
        return False
    return not any(starts(function) for function in functions if function is not None)


def spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """In an order in which each worker of xdist begins with its share of what is slow, and ends with what is quick.

    `--dist=worksteal` gives each worker a part of the list, one after the other, and whoever has done his takes from
    the end of the longest that is left. A slow test that is last would have all others wait for it.
    """
    slow = [item for item in items if item.get_closest_marker("quick") is None]
    quick = [item for item in items if item.get_closest_marker("quick") is not None]
    ordered: list[pytest.Item] = []
    for remaining in range(workers, 0, -1):
        size = (len(items) - len(ordered)) // remaining
        part = slow[: len(slow) // remaining][:size]
        slow = slow[len(part) :]
        rest = size - len(part)
        ordered += part + quick[:rest]
        quick = quick[rest:]
    return ordered + slow + quick


@functools.cache
def starts(function: Callable[..., object]) -> bool:
    """Whether a function names what starts a process, itself or through helpers of tests/."""
    seen: set[int] = set()
    waiting: list[object] = [function]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for value in named(one):
            origin = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
            if not isinstance(origin, str):
                continue
            if origin.partition(".")[0] in STARTERS or origin.startswith((*LAB, *ROOMS)):
                return True
            if origin.startswith("gpudoctor") and getattr(value, "__name__", "") in PRODUCT:
                return True
            if origin.startswith("tests.") and isinstance(value, (types.FunctionType, type)):
                waiting.append(value)
    return False


@functools.cache
def named(value: object) -> tuple[object, ...]:
    """What the code of a function, or of a class's methods, names of its module."""
    if isinstance(value, type):
        methods = [method for method in vars(value).values() if isinstance(method, types.FunctionType)]
        return tuple(each for method in methods for each in named(method))
    value = inspect.unwrap(value) if callable(value) else value
    if not isinstance(value, types.FunctionType):
        return ()
    words = set(names_of([value.__code__]))
    own = [value.__globals__[word] for word in words if word in value.__globals__]
    helpers = [each for each in own if isinstance(each, types.ModuleType) and each.__name__.startswith("tests.")]
    return (*own, *(getattr(module, word) for module in helpers for word in words if hasattr(module, word)))


def names_of(codes: Iterable[types.CodeType]) -> Iterator[str]:
    for code in codes:
        yield from code.co_names
        yield from names_of(each for each in code.co_consts if isinstance(each, types.CodeType))
