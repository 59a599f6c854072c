"""Every launcher, found in the folder `gpudoctor/launchers/`, and by what it is called.

The files are imported when somebody asks; what only wants to know what a launcher is loads `traits`.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from gpudoctor.launcher.traits import Form, LauncherTraits, ManifestKind
from gpudoctor.plugins import LAUNCHERS, constant, find

FOLDER = "gpudoctor.launchers"


class Called(NamedTuple):
    """A launcher, as words call it."""

    launcher: LauncherTraits
    form: Form
    start: int
    """Where its own words begin."""
    entry: str
    """Its words: "accelerate launch", "torch.distributed.run"."""


@cache
def every() -> tuple[LauncherTraits, ...]:
    """By name: ours, and those of other packages."""
    folder = importlib.import_module(FOLDER)
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__, f"{FOLDER}."))
    own = [importlib.import_module(name).LAUNCHER for name in names]
    every_one = find(LAUNCHERS, constant("LAUNCHER", LauncherTraits), lambda launcher: [launcher.name], own)
    return tuple(sorted(every_one, key=lambda launcher: launcher.name))


@cache
def frameworks() -> dict[str, LauncherTraits]:
    """Those that `gpudoctor launch` writes, by name."""
    return {launcher_traits.name: launcher_traits for launcher_traits in every() if launcher_traits.write is not None}


@cache
def _by_form() -> dict[str, tuple[LauncherTraits, Form]]:
    return {form.launcher: (launcher, form) for launcher in reversed(every()) for form in reversed(launcher.forms)}


def traits(name: str) -> LauncherTraits:
    """Of `Launch.launcher`."""
    return _by_form()[name][0]


def form(name: str) -> Form:
    return _by_form()[name][1]


Table = dict[str, list[tuple[tuple[str, ...], LauncherTraits, Form]]]


@cache
def _tables() -> tuple[Table, Table]:
    """First word -> what must follow; of programs, and of modules. The longest stand first."""
    tables: tuple[Table, Table] = ({}, {})
    for launcher in every():
        for each in launcher.forms:
            for table, names in zip(tables, (each.programs, each.modules), strict=True):
                for name in names:
                    first, *others = name.split()
                    table.setdefault(first, []).append((tuple(others), launcher, each))
    for table in tables:
        for entries in table.values():
            entries.sort(key=lambda entry: -len(entry[0]))
    return tables


def called(words: Sequence[str], at: int = 0, *, module: bool = False) -> Called | None:
    """The launcher that `words[at]`, a program or module, is together with what must follow it."""
    if at >= len(words):
        return None
    for others, launcher, each in _tables()[module].get(words[at], ()):
        start = at + 1 + len(others)
        if tuple(words[at + 1 : start]) == others:
            return Called(launcher, each, start, " ".join(words[at:start]))
    return None


@cache
def first_words(*, module: bool) -> dict[str, LauncherTraits]:
    """Program or module -> the launcher that has it, whatever must follow."""
    return {name: entries[0][1] for name, entries in _tables()[module].items()}


def starts_tasks(program: str, *following: str) -> Called | None:
    """srun, mpirun, `flux run`: what starts a program as it is, once for each task."""
    launcher = called([program, *following[:2]])
    return launcher if launcher is not None and launcher.launcher.bare else None


@cache
def starters() -> frozenset[str]:
    """Programs that start the ranks of a training and are given its script."""
    return frozenset(
        program for launcher_traits in every() if not launcher_traits.bare for program in launcher_traits.programs
    )


@cache
def programs() -> frozenset[str]:
    """Of all launchers, whatever must follow."""
    return frozenset(program for launcher_traits in every() for program in launcher_traits.programs)


@cache
def rank_setters() -> frozenset[str]:
    """Kinds of processes that start ranks and wait for them: "torchrun", "accelerate", "deepspeed"."""
    return frozenset(
        launcher_traits.runs_as for launcher_traits in every() if launcher_traits.sets_ranks and launcher_traits.runs_as
    )


@cache
def manifest_kinds() -> dict[str, ManifestKind]:
    return {kind.kind: kind for launcher_traits in every() for kind in launcher_traits.manifests}
