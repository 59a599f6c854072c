"""Which tests are quick: those that start no process, by themselves or with what they call in tests/ and its fixtures.

`python -m pytest -m quick` is what one runs while one works, and has no list: a test is quick unless its code, or that
of a helper of tests/ which it names, names what starts processes, or torch. What tries thousands of inputs is not quick
either: attacks, properties of hypothesis, and what is marked `thorough`. Files in which none can be quick are then not
even read: importing torch takes as long as a thousand quick tests.
"""

import ast
import dis
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

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


WAYS_TO_START = ("forks",)
"""Fixtures that say how a test's processes are started, and start none."""
PROCESSES = ("subprocess.Popen", "os.fork", "os.posix_spawn")
"""What the interpreter tells its audit hooks of."""


def none_is_quick(path: Path) -> bool:
    """Whether a file, or all of a folder, need not be read for quick tests."""
    if path.is_dir() or path.suffix != ".py":
        return f"{path}/".endswith(MANY_INPUTS[0])
    source = path.read_bytes()
    if not re.search(rb"(?m)^(import|from) torch\b|^.*\bimportorskip\(.torch\b", source):
        return False
    return any(  # a line of a program in a string is none
        name.partition(".")[0] == "torch" for statement in ast.parse(source).body for name in imported_by(statement)
    )


def imported_by(statement: ast.stmt) -> list[str]:
    """The modules that a statement at the left margin imports, `importorskip` included."""
    if isinstance(statement, ast.Import):
        return [each.name for each in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [statement.module or ""]
    match getattr(statement, "value", None):
        case ast.Call(ast.Attribute(attr="importorskip"), [ast.Constant(str(module))]):
            return [module]
    return []


class Watch:
    """What the test under way has started. A hook of the interpreter cannot be taken back, so there is one."""

    def __init__(self) -> None:
        self.started: list[str] = []
        sys.addaudithook(self.heard)

    def heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in PROCESSES:
            self.started.append(f"{event} {arguments[:2]}")


def is_quick(item: pytest.Item) -> bool:
    """Whether neither the test nor its fixtures start anything."""
    fixtures = getattr(item, "_fixtureinfo", None)
    definitions = (
        each
        for name, several in (fixtures.name2fixturedefs.items() if fixtures else ())
        for each in several
        if name not in WAYS_TO_START
    )
    functions = [getattr(item, "function", None), *(each.func for each in definitions)]
    thorough = item.get_closest_marker("thorough") is not None
    if thorough or item.nodeid.startswith(MANY_INPUTS) or hasattr(functions[0], "hypothesis"):
        return False
    return not any(starts(function) for function in functions if function is not None)


LONGER = 8
"""Times as long as another that is not quick takes a test of a lab, about."""


def spread(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """In an order in which each worker of xdist begins with its share of what is slow, and ends with what is quick.

    `--dist=worksteal` gives each worker a part of the list, one after the other, and whoever has done his takes from
    the end of the longest that is left. A slow test that is last would have all others wait for it; and where all wait
    for labs at once nobody computes. So every other worker begins with the files whose tests ask for more time than
    others, while the rest compute. Files stay whole, as their tests share what they have started.
    """
    slow = [item for item in items if item.get_closest_marker("quick") is None]
    quick = [item for item in items if item.get_closest_marker("quick") is not None]
    quick.sort(key=lambda item: not parses(item))
    files: dict[Path, list[pytest.Item]] = {}
    for item in slow:
        files.setdefault(item.path, []).append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    taken = [0] * workers
    for file in sorted(files.values(), key=waits, reverse=True):
        open_to = range(1) if parses(file[0]) else range(0, workers, 2) if waits(file) else range(workers)
        chosen = min(open_to, key=taken.__getitem__)
        shares[chosen] += file
        taken[chosen] += len(file) * (LONGER if waits(file) else 1)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        size = (len(items) - len(ordered)) // (workers - number)
        filled = max(0, size - len(share))
        ordered += share + quick[:filled]
        quick = quick[filled:]
    return ordered + quick


def parses(item: pytest.Item) -> bool:
    """Whether it looks through our sources, which one worker is to parse for all."""
    return hasattr(getattr(item, "module", None), "sources")


def waits(file: list[pytest.Item]) -> bool:
    """Whether a test of it asks for more time than all have: a lab, in which ranks stand and hosts vanish."""
    usual = float(file[0].config.getini("timeout"))
    return any(marker.args[0] > usual for item in file for marker in item.iter_markers("timeout"))


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
        if imports_or_skips(one):
            return True
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


def imports_or_skips(value: object) -> bool:
    """Whether a function imports what takes long: `pytest.importorskip("torch")`, `from torch.distributed import x`."""
    code = getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
    if code is None:
        return False
    skipped = code.co_consts if "importorskip" in code.co_names else ()
    names_one = any(each.partition(".")[0] in STARTERS for each in code.co_names)  # maybe as an attribute only
    imported = [each.argval for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"] if names_one else []
    return any(isinstance(each, str) and each.partition(".")[0] in STARTERS for each in (*skipped, *imported))


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
