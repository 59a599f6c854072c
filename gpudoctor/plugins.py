"""What other distributions bring: checks, causes, lint rules and launchers, by entry points of the groups below.

An entry names a module or package; it and all modules in it are searched. What cannot be imported, or has an id that is
taken, costs itself only, and `broken` tells of it.
"""

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from msgspec import Struct

from gpudoctor.check import Check
from gpudoctor.envelope import FORMER, Answer
from gpudoctor.errors import BadInput

if TYPE_CHECKING:  # what it imports besides (email, socket) costs a start 25 ms, and most installs have no plugin
    from importlib.metadata import EntryPoint

T = TypeVar("T")

CHECKS, CAUSES, RULES, LAUNCHERS = GROUPS = (
    *("gpudoctor.checks", "gpudoctor.causes", "gpudoctor.rules", "gpudoctor.launchers"),
)


class BrokenPlugin(Struct, frozen=True):
    """A package, module or thing in it that could not be used, and why."""

    name: str
    reason: str


_broken: dict[str, tuple[BrokenPlugin, ...]] = {}


def broken(*groups: str) -> tuple[BrokenPlugin, ...]:
    """What could not be used of these groups (none: of all) when they were last looked for."""
    return tuple(plugin for group, plugins in _broken.items() if not groups or group in groups for plugin in plugins)


def unsaid() -> tuple[BrokenPlugin, ...]:
    """Those that no report of checks tells of."""
    return tuple(dict.fromkeys(broken(*GROUPS[1:])))


def note(plugins: dict[str, tuple[BrokenPlugin, ...]]) -> None:
    """What a child of ours met."""
    _broken.update(plugins)


def find(
    group: str,
    in_module: Callable[[ModuleType], Iterable[T]],
    ids: Callable[[T], Sequence[str]],
    own: Iterable[T] = (),
) -> list[T]:
    """`own`, and what installed packages bring to a group. Of two with one id the first stays.

    `in_module`: those that a module defines. `ids`: names of one, none of which another may have.
    """
    taken: dict[str, str] = {}
    all_of_them: list[T] = []
    trouble: list[BrokenPlugin] = []

    def take(one: T, where: str) -> None:
        if clash := next((id for id in ids(one) if id in taken), ""):
            trouble.append(
                BrokenPlugin(where, f"{group.rpartition('.')[2][:-1]} id {clash!r} is taken by {taken[clash]}")
            )
        else:
            taken.update(dict.fromkeys(ids(one), where))
            all_of_them.append(one)

    for one in own:
        take(one, "gpudoctor")
    for entry in sorted(_installed(group), key=lambda entry: (entry.name != "builtin", entry.name)):
        for name, module in _modules(entry, trouble):
            try:
                brought = list(in_module(module))
            except Exception as error:  # such as a CAUSE that is none
                trouble.append(BrokenPlugin(name, _one_line(error)))
                continue
            for one in brought:
                take(one, name)
    _broken[group] = tuple(trouble)
    return all_of_them


def _installed(group: str) -> "Iterable[EntryPoint]":
    """Its entry points in all installed distributions."""
    if not _may_be_named(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_be_named(group: str) -> bool:
    """Whether an installed distribution names the group, or may: one in an archive, one of a finder of its own."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    section = f"[{group}]".encode()
    for folder in map(Path, dict.fromkeys(sys.path)):
        try:
            for about in folder.iterdir():
                if about.suffix == ".egg":
                    return True
                if about.suffix in {".dist-info", ".egg-info"} and about.is_dir():
                    entries = about / "entry_points.txt"
                    if entries.exists() and section in entries.read_bytes():
                        return True
        except FileNotFoundError:  # python311.zip, which hardly a machine has
            continue
        except OSError:  # an archive, or what must not be read
            return True
    return False


def instances(kind: type[T], made_in: Callable[[T], str]) -> Callable[[ModuleType], list[T]]:
    """An `in_module`: the values of a class that a module defines itself (not those it imported), each once."""

    def of(module: ModuleType) -> list[T]:
        values = {id(value): value for value in vars(module).values() if isinstance(value, kind)}
        return [value for value in values.values() if made_in(value) == module.__name__]

    return of


def constant(name: str, kind: type[T]) -> Callable[[ModuleType], list[T]]:
    """An `in_module`: what a module defines under a name, if it does."""

    def of(module: ModuleType) -> list[T]:
        value = vars(module).get(name)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"its {name} is no {kind.__name__}")
        return [value] if value is not None else []

    return of


@cache
def _every_check() -> tuple[tuple[Check, ...], tuple[BrokenPlugin, ...]]:
    checks = find(CHECKS, instances(Check, lambda check: check.module), lambda check: [check.id])
    return tuple(sorted(checks, key=lambda check: (check.group, check.id))), broken(CHECKS)


def find_checks() -> tuple[list[Check], list[BrokenPlugin]]:
    """All installed checks by group and id, and what could not be loaded. Looked for once."""
    checks, trouble = _every_check()
    return [*checks], [*trouble]


def chosen_checks(names: Sequence[str]) -> tuple[list[Check], list[BrokenPlugin]]:
    """The checks that were asked for, and, when all were, what could not be loaded. Raises `BadInput`."""
    checks, trouble = find_checks()
    return select(checks, names), [] if names else trouble


def select(checks: Sequence[Check], names: Sequence[str]) -> list[Check]:
    """The checks with these ids, former ids or groups, in their own order; all of them for no name.

    Raises `BadInput` for a name that is neither.
    """
    wanted: set[str] = set()
    for name in names:
        names_of = (name, FORMER.get(name))
        matching = {check.id for check in checks if not {check.id, check.group, *check.aliases}.isdisjoint(names_of)}
        if not matching:
            known = sorted({check.group for check in checks} | {check.id for check in checks})
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(close)}?" if close else "'gpudoctor checks' lists them"
            raise BadInput(f"no check or group is called {name!r}; {hint}")
        wanted |= matching
    return [check for check in checks if not names or check.id in wanted]


class ListedCheck(Struct, frozen=True):
    """A check, as `gpudoctor checks` lists it."""

    id: str
    group: str
    title: str
    aliases: tuple[str, ...]
    documentation: str


class ChecksAnswer(Answer, frozen=True):
    """What checks there are."""

    command: ClassVar[str] = "checks"
    signs: ClassVar[tuple[str, ...]] = ("checks",)
    checks: tuple[ListedCheck, ...]


def listed(checks: Iterable[Check]) -> ChecksAnswer:
    return ChecksAnswer(
        tuple(ListedCheck(check.id, check.group, check.title, check.aliases, check.documentation) for check in checks)
    )


def _modules(entry: "EntryPoint", trouble: list[BrokenPlugin]) -> Iterator[tuple[str, ModuleType]]:
    package = _imported(entry.module, trouble, entry.name, f"cannot import {entry.module}")
    if package is None:
        return
    yield entry.module, package
    for info in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + ".", onerror=lambda _: None):
        module = _imported(info.name, trouble, info.name, "cannot import it")
        if module is not None:
            yield info.name, module


def _imported(module: str, trouble: list[BrokenPlugin], name: str, failing: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except BaseException as error:  # whatever a foreign package raises at import, SystemExit too
        # A signal in the middle of a C function comes as SystemError, with the interrupt as its cause.
        asked = error if isinstance(error, KeyboardInterrupt) else error.__cause__
        if isinstance(asked, KeyboardInterrupt):
            raise asked from None
        trouble.append(BrokenPlugin(name, f"{failing}: {_one_line(error)}"))
        return None


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
