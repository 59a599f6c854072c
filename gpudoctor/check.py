"""What a check is written against: `@check`, `@gpu_check`, `Problem`, `Fix`, `command`, and `Snapshot`.

A check is one module: its docstring is its documentation page, its rule a pure generator of `Problem`s over a
`Snapshot`. A rule speaks only of problems; that a check is ok, skipped or crashed is said by `gpudoctor.diagnose`.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from gpudoctor.command import Command, command
from gpudoctor.snapshot import Gpu, Reading, Snapshot

T = TypeVar("T", bound=Struct)

Severity = Literal["error", "warning", "info"]
"""error: training fails, hangs or computes wrong numbers. warning: it runs, slower or at risk. info: worth knowing.

An info never changes the verdict or the exit status.
"""

Problems = Iterator["Problem"]
"""What a rule yields."""
Rule = Callable[[Snapshot], Problems]
GpuRule = Callable[[Gpu, Snapshot], Problems]


class Fix(Struct, frozen=True):
    """What to do: a sentence, and lines to paste that carry this machine's values."""

    text: str
    commands: tuple[Command, ...] = ()

    @classmethod
    def of(cls, text: str, *commands: Command) -> "Fix":
        """The sentence, and the lines one after the other."""
        return cls(text, commands)

    def __post_init__(self) -> None:
        # A command that could not be said is "": it is left out, and the sentence stays.
        if not all(self.commands):
            force_setattr(self, "commands", tuple(line for line in self.commands if line))


class Problem(Struct, frozen=True, kw_only=True):
    """Something a check found.

    `summary` says what was seen and what was wanted, with numbers and device; `meaning` what it does to the run;
    `evidence` is the readings it rests on, each of which carries its source.
    """

    severity: Severity
    summary: str
    meaning: str
    fix: Fix
    evidence: tuple[Reading[Any], ...]
    gpus: tuple[int, ...] = ()
    """NVML indices of the GPUs it concerns; filled in for a `gpu_check`."""


def without_lines(answer: T) -> T:
    """An answer that came from a file, without its lines to paste: whoever wrote the file chose them."""
    found: T = _without_lines(answer)
    return found


def _without_lines(value: Any) -> Any:
    if isinstance(value, Fix):
        return Fix(value.text)
    if isinstance(value, Struct):
        changes = {
            name: changed
            for name in value.__struct_fields__
            if (changed := _without_lines(old := getattr(value, name))) is not old
        }
        return structs.replace(value, **changes) if changes else value
    if isinstance(value, tuple):
        return tuple(map(_without_lines, value))
    return {name: _without_lines(each) for name, each in value.items()} if isinstance(value, dict) else value


class Check:
    """A rule with its name. `id` names the fault (`shm-too-small`), `title` the healthy state."""

    def __init__(
        self,
        id: str,
        *,
        title: str,
        rule: Rule | None = None,
        gpu_rule: GpuRule | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.id = id
        self.title = title
        self.rule = rule
        self.gpu_rule = gpu_rule
        self.aliases = aliases
        """Former ids: an id is never reused."""
        function = rule or gpu_rule
        self.module: str = function.__module__ if function else ""

    @property
    def group(self) -> str:
        """The folder the check's file lies in: "host", "gpu", ..."""
        parts = self.module.split(".")
        return parts[-2] if len(parts) > 1 else parts[0]

    @property
    def documentation(self) -> str:
        """The docstring of the check's module."""
        module = sys.modules.get(self.module)
        return (module.__doc__ or "").strip() if module else ""

    def __repr__(self) -> str:
        return f"Check({self.id!r})"


def check(id: str, *, title: str, aliases: tuple[str, ...] = ()) -> Callable[[Rule], Check]:
    """Make a check of a rule over the whole machine."""
    return lambda rule: Check(id, title=title, rule=rule, aliases=aliases)


def gpu_check(id: str, *, title: str, aliases: tuple[str, ...] = ()) -> Callable[[GpuRule], Check]:
    """Make a check of a rule that is asked about every NVIDIA GPU by itself.

    A GPU whose facts could not be read does not keep the others from being judged.
    """
    return lambda rule: Check(id, title=title, gpu_rule=rule, aliases=aliases)


__all__ = [
    "Check",
    "Command",
    "Fix",
    "Gpu",
    "GpuRule",
    "Problem",
    "Problems",
    "Rule",
    "Severity",
    "Snapshot",
    "check",
    "command",
    "gpu_check",
    "without_lines",
]
