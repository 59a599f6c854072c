"""Which tests are quick: those that start no process, by themselves or with what they call in tests/ and its fixtures.

`python -m pytest -m quick` is what one runs while one works, and has no list: a test is quick unless its code, or that
of a helper of tests/ which it names, names what starts processes, or torch.
"""

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator

import pytest

STARTERS = ("subprocess", "multiprocessing", "pty", "torch", "lightning", "accelerate")
"""Modules: whoever names one, or something out of one, is not quick."""
LAB = ("tests.lab.hosts", "tests.lab.sshd", "tests.lab.slurm", "tests.lab.nvidia", "tests.lab.warm")
PRODUCT = frozenset(("LocalFleet", "examine", "main", "CliRunner", "ask_child", "in_children"))
"""What of gpudoctor starts processes of its own."""


def is_quick(item: pytest.Item) -> bool:
    """Whether neither the test nor its fixtures start anything."""
    fixtures = getattr(item, "_fixtureinfo", None)
    definitions = (each for several in fixtures.name2fixturedefs.values() for each in several) if fixtures else ()
    functions = [getattr(item, "function", None), *(each.func for each in definitions)]
    return not any(starts(function) for function in functions if function is not None)


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
            if origin.partition(".")[0] in STARTERS or origin.startswith(LAB):
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
    return tuple(value.__globals__[name] for name in names_of([value.__code__]) if name in value.__globals__)


def names_of(codes: Iterable[types.CodeType]) -> Iterator[str]:
    for code in codes:
        yield from code.co_names
        yield from names_of(each for each in code.co_consts if isinstance(each, types.CodeType))
