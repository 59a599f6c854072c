"""The variables of a shell, and what is known of each."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, structs

from gpudoctor.lint.model import LintFacts, SetVariable, Span, Word
from gpudoctor.lint.shell.platform import SPECIAL, is_platform
from gpudoctor.lint.shell.source import CommandRun

How = Literal["prefix", "export", "assignment", "env", "sbatch", "launcher", "file", "manifest"]


class ShellVariable(Struct, frozen=True):
    """`runs` None: it is set, nobody knows to what. `items`: of an array. `open`: an element of it may be any number of
    words, so that nobody can count them."""

    setting: SetVariable
    runs: tuple[CommandRun, ...] | None = None
    items: tuple[tuple[CommandRun, ...], ...] | None = None
    is_set: bool | None = True
    open: bool = False

    @property
    def text(self) -> str | None:
        """All of it, when it is known."""
        if self.runs is None or not all(run.known for run in self.runs):
            return None
        return "".join(run.text for run in self.runs)


class Variables:
    """Names to what they hold; copied for subshells and branches, and on writing shared ones."""

    def __init__(self, facts: LintFacts | None = None) -> None:
        self._all: dict[str, ShellVariable] = {}
        self._settings: dict[str, SetVariable] | None = None
        self.functions: dict[str, object] = {}
        self.handed_on: frozenset[str] = frozenset()
        """Functions that inner shells have too (`export -f`)."""
        self.export_all = False
        self.unread_source = False
        """A `source` or `eval` ran whose text is not here: it may have set anything."""
        self.removed: frozenset[str] = frozenset()
        """Unset by the text itself: certainly not set, whatever the environment has."""
        self.platform: Mapping[str, str] = {}
        """What the header and the facts say of the scheduler's variables; for counting, not for what is written."""
        self.ended: tuple[str, int] | None = None
        """What ended the flow of commands here: exit, return, break or continue, and of how many loops."""
        self.exits_on_error = False
        """`set -e`."""
        self.seat: Mapping[str, str] = facts.seat if facts else {}
        """Of the node as which the text is followed: `LintFacts.seat`."""
        self.chosen: Mapping[str, str] = facts.chosen if facts else {}
        for name, value in (facts.variables if facts else {}).items():
            word = Word(raw=value, text=value, shown=value, span=Span(0, 0, 1, exact=False))
            self.set(name, ShellVariable(SetVariable(name, word, True, "file"), (CommandRun(value),)))

    def copy(self) -> "Variables":
        other = Variables()
        other._all = dict(self._all)
        other._settings = self._settings
        other.functions, other.handed_on = dict(self.functions), self.handed_on
        other.export_all, other.exits_on_error, other.ended = self.export_all, self.exits_on_error, self.ended
        other.unread_source = self.unread_source
        other.removed = self.removed
        other.platform = self.platform
        other.seat, other.chosen = self.seat, self.chosen
        return other

    def names_unlike(self, other: "Variables") -> list[str]:
        """What holds another value here."""
        return [name for name, variable in self._all.items() if other._all.get(name) is not variable]

    @property
    def separators(self) -> str:
        """IFS, where the text sets it."""
        ifs = self._all.get("IFS")
        return (ifs.text or "") if ifs is not None else ""

    def restore(self, name: str, before: ShellVariable | None) -> None:
        """A variable as it was, exported or not."""
        if before is None:
            self.unset(name)
        else:
            self._all[name] = before
            self._settings = None

    def __len__(self) -> int:
        return len(self._all)

    def get(self, name: str) -> ShellVariable | None:
        return self._all.get(name)

    def set(self, name: str, variable: ShellVariable) -> None:
        before = self._all.get(name)
        exported = variable.setting.exported or self.export_all or (before is not None and before.setting.exported)
        if exported and not variable.setting.exported:
            variable = structs.replace(variable, setting=structs.replace(variable.setting, exported=True))
        self._all[name] = variable
        self._settings = None
        if name in self.removed:
            self.removed -= {name}

    def export(self, name: str, exported: bool = True) -> None:
        before = self._all.get(name)
        if before is not None and before.setting.exported != exported:
            setting = structs.replace(before.setting, exported=exported, how="export" if exported else "assignment")
            self._all[name] = structs.replace(before, setting=setting)
            self._settings = None

    def unset(self, name: str) -> None:
        if self._all.pop(name, None) is not None:
            self._settings = None
        self.removed |= {name}

    def source_unread(self) -> None:
        """A file was read whose text is not here: like Kaldi's parse_options.sh it may set what is empty, and shift."""
        for name, variable in list(self._all.items()):
            if variable.text == "" or name.isdigit() or name == "@":
                self._all[name] = ShellVariable(variable.setting, None, is_set=None)
        self._settings = None

    def is_set(self, name: str) -> bool | None:
        """None: cannot be told."""
        variable = self._all.get(name)
        if variable is not None:
            return variable.is_set
        if name in self.removed and name.isdigit():
            return False
        if SPECIAL.fullmatch(name):
            return None if name.isdigit() or name in "*@" else True
        if is_platform(name):
            return True
        return None if self.unread_source else False

    def settings(self) -> dict[str, SetVariable]:
        """A snapshot, shared until something changes. Variables that may not be set are among them."""
        if self._settings is None:
            self._settings = {name: variable.setting for name, variable in self._all.items() if name.isidentifier()}
        return self._settings

    def for_program(self) -> "Variables":
        """What a started program (an inner shell) gets: the exported ones."""
        other = Variables()
        other._all = {name: variable for name, variable in self._all.items() if variable.setting.exported}
        other.functions = {name: each for name, each in self.functions.items() if name in self.handed_on}
        other.unread_source, other.handed_on = self.unread_source, self.handed_on
        other.removed, other.platform, other.seat = self.removed, self.platform, self.seat
        return other

    def merge(self, branches: Iterable["Variables"]) -> None:
        """After an `if`: what all branches agree in is known, the rest is set to one of several values."""
        first, *others = branches
        merged: dict[str, ShellVariable] = {}
        everything: Mapping[str, None] = dict.fromkeys(
            name for variables in (first, *others) for name in variables._all
        )  # in a stable order
        for name in everything:
            shell_variables = [variables._all.get(name) for variables in (first, *others)]
            present = [shell_variable for shell_variable in shell_variables if shell_variable is not None]
            if len(present) == len(shell_variables) and all(
                variable is present[0] or variable == present[0] for variable in present[1:]
            ):
                merged[name] = present[0]
                continue
            if len(present) == len(shell_variables) and _same(present):
                merged[name] = present[0]
                continue
            certain = len(present) == len(shell_variables) and all(variable.is_set for variable in present)
            other_way = certain or is_platform(name)
            setting = present[-1].setting
            # One of several values, or none: whoever looks at the setting is not to take the last one for it.
            word = structs.replace(setting.word, text=None, shown=f"${name}")
            exported = any(variable.setting.exported for variable in present)
            setting = structs.replace(setting, word=word, exported=exported)
            begin = _begin(name, present) if certain else None
            merged[name] = begin or ShellVariable(setting, None, None, True if other_way else None)
        self._all = merged
        self.removed = frozenset.intersection(*(variables.removed for variables in (first, *others))).difference(merged)
        self._settings = None
        for variables in (first, *others):
            self.functions.update(variables.functions)
            self.handed_on |= variables.handed_on
            self.unread_source = self.unread_source or variables.unread_source


def _begin(name: str, several: list[ShellVariable]) -> ShellVariable | None:
    """Of options to which some ways add more (`ARGS+=(...)`, `ARGS="$ARGS ..."`): those that all ways have, and behind
    them any number of words."""
    first = several[0]
    rest = CommandRun(f"${{{name}[@]}}" if first.items else f"${name}", known=False, splits=True)
    setting = structs.replace(first.setting, word=structs.replace(first.setting.word, text=None, shown=f"${name}"))
    if first.items is not None:
        ways = [variable.items or () for variable in several]
        items = tuple(each for each, *_ in itertools.takewhile(_alike, zip(*ways, strict=False)))
        return ShellVariable(setting, items[0], (*items, (rest,)), open=True) if items else None
    if any(variable.items is not None or variable.runs is None for variable in several):
        return None
    shortest = min((variable.runs or () for variable in several), key=_length)
    begin = "".join(run.text for run in shortest)
    adds = all("".join(run.text for run in variable.runs or ()).startswith(begin) for variable in several)
    if not adds or not begin.lstrip(" \\\n").startswith("-") or not all(run.known for run in shortest):
        return None
    return ShellVariable(setting, (*shortest, CommandRun(" ", splits=True), rest))


def _alike(ways: tuple[object, ...]) -> bool:
    return all(way == ways[0] for way in ways[1:])


def _length(runs: tuple[CommandRun, ...]) -> int:
    return sum(len(run.text) for run in runs)


def _same(several: list[ShellVariable]) -> bool:
    """Set to one text on every way."""
    first = several[0]
    return first.text is not None and all(
        variable.text == first.text
        and variable.items == first.items
        and variable.setting.exported == first.setting.exported
        for variable in several
    )
