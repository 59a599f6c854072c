"""Finds the installed checks: every package named by an entry point of the group `gpudoctor.checks`."""

import importlib
import pkgutil
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from msgspec import Struct

from gpudoctor.check import Check

GROUP = "gpudoctor.checks"


class BrokenPlugin(Struct, frozen=True):
    """A package, module or check that could not be used, and why."""

    name: str
    reason: str


def find_checks(entries: Iterable[EntryPoint] | None = None) -> tuple[list[Check], list[BrokenPlugin]]:
    """All installed checks by group and id, and what could not be loaded; a broken module loses only itself."""
    checks: dict[str, Check] = {}
    broken: list[BrokenPlugin] = []
    entries = entry_points(group=GROUP) if entries is None else entries
    for entry in sorted(entries, key=lambda entry: (entry.name != "builtin", entry.name)):
        for name, module in _modules(entry, broken):
            for found in _checks_of(module):
                taken = checks.get(found.id)
                if taken is not None:
                    broken.append(BrokenPlugin(name, f"check id {found.id!r} is taken by {taken.module}"))
                else:
                    checks[found.id] = found
    return sorted(checks.values(), key=lambda found: (found.group, found.id)), broken


def _checks_of(module: ModuleType) -> list[Check]:
    """The checks that a module defines itself (not those it imported), each once."""
    found = {id(value): value for value in vars(module).values() if isinstance(value, Check)}
    return [value for value in found.values() if value.module == module.__name__]


def _modules(entry: EntryPoint, broken: list[BrokenPlugin]) -> Iterable[tuple[str, ModuleType]]:
    try:
        package = importlib.import_module(entry.module)
    except BaseException as error:  # whatever a foreign package raises at import, SystemExit too
        if isinstance(error, KeyboardInterrupt):
            raise
        broken.append(BrokenPlugin(entry.name, f"cannot import {entry.module}: {_one_line(error)}"))
        return
    yield entry.module, package
    for info in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + ".", onerror=lambda _: None):
        try:
            yield info.name, importlib.import_module(info.name)
        except BaseException as error:  # as above
            if isinstance(error, KeyboardInterrupt):
                raise
            broken.append(BrokenPlugin(info.name, f"cannot import it: {_one_line(error)}"))


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
