"""What a check is written against: `@check`, `@gpu_check`, `Problem`, `Fix`, `command`, and `Snapshot`.

A check is one module: its docstring is its documentation page, its rule a pure generator of `Problem`s over a
`Snapshot`. A rule speaks only of problems; that a check is ok, skipped or crashed is said by `gpudoctor.diagnose`.
"""

import sys
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, TypeVar

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from gpudoctor.command import Command, command
from gpudoctor.effect import Where, effect_of, where_looked
from gpudoctor.severity import Severity
from gpudoctor.snapshot import Gpu, Reading, Snapshot

T = TypeVar("T", bound=Struct)

Problems = Iterator["Problem"]
"""What a rule yields."""
Rule = Callable[[Snapshot], Problems]
GpuRule = Callable[[Gpu, Snapshot], Problems]


class Fix(Struct, frozen=True):
    """What to do: a sentence, and lines to paste that carry this machine's values."""

    text: str
    commands: tuple[Command, ...] = ()
    where: Where = ""
    """Where it is done; told by the lines (`gpudoctor.effect`) where nothing else is said."""
    risk: str = ""
    """What else it may cost, as a phrase; likewise."""
    otherwise: "tuple[Fix, ...]" = ()
    """What to do in its place: never lines of one block."""

    @classmethod
    def of(cls, text: str, *commands: Command) -> "Fix":
        """The sentence, and the lines one after the other."""
        return cls(text, commands)

    def __post_init__(self) -> None:
        # A command that could not be said is "": it is left out, and the sentence stays.
        if not all(self.commands):
            force_setattr(self, "commands", tuple(line for line in self.commands if line))
        if self.commands and not (self.where and self.risk):
            acts = [effect for effect in map(effect_of, self.commands) if effect is not None]
            if not self.where:
                force_setattr(self, "where", acts[0].where if acts else where_looked(self.commands[0]))
            if not self.risk:
                force_setattr(self, "risk", "; ".join(dict.fromkeys(effect.risk for effect in acts if effect.risk)))

    @property
    def every_line(self) -> tuple[Command, ...]:
        """Its lines and those of what can be done in its place."""
        return (*self.commands, *(line for other in self.otherwise for line in other.every_line))

    @property
    def first_line(self) -> Command | None:
        """The line to begin with: the first that changes something, else the first."""
        acting = (line for line in self.commands if effect_of(line) is not None)
        return next(acting, self.commands[0] if self.commands else None)


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
    follows: tuple[str, ...] = ()
    """Ids of checks: with what they find on the same GPU this is one trouble, and their fix is the one. Filled in from
    the check."""
    short: str = ""
    """The trouble in two or three words, for a GPU's row in a table: "bad memory". Filled in from the check."""

    def __post_init__(self) -> None:
        # What changes nothing about the verdict is not worth root's hand.
        if self.severity == "info" and any("sudo " in line for line in self.fix.commands):
            harmless = tuple(line for line in self.fix.commands if "sudo " not in line)
            force_setattr(self, "fix", structs.replace(self.fix, commands=harmless, where="", risk=""))


def without_lines(answer: T) -> T:
    """An answer that came from a file, without its lines to paste: whoever wrote the file chose them."""
    found: T = _without_lines(answer)
    return found


def _without_lines(value: Any) -> Any:
    if isinstance(value, Fix):
        instead = tuple(map(_without_lines, value.otherwise))
        return Fix(value.text, where=value.where, risk=value.risk, otherwise=instead)
    if isinstance(value, Struct):
        changes = {
            name: changed
            for name in value.__struct_fields__
            if (changed := _without_lines(old := getattr(value, name))) is not old
        }
        return structs.replace(value, **changes) if changes else value
    if isinstance(value, tuple):
        bare = tuple(map(_without_lines, value))
        return value if all(map(is_, value, bare)) else bare
    return {name: _without_lines(item) for name, item in value.items()} if isinstance(value, dict) else value


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
        short: str = "",
        follows: tuple[str, ...] = (),
    ) -> None:
        self.id = id
        self.title = title
        self.rule = rule
        self.gpu_rule = gpu_rule
        self.aliases = aliases
        """Former ids: an id is never reused."""
        self.short = short or id.replace("-", " ")
        self.follows = follows
        """Checks that explain what this one finds, the best first (`Problem.follows`)."""
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


def check(
    id: str, *, title: str, aliases: tuple[str, ...] = (), short: str = "", follows: tuple[str, ...] = ()
) -> Callable[[Rule], Check]:
    """Make a check of a rule over the whole machine."""
    return lambda rule: Check(id, title=title, rule=rule, aliases=aliases, short=short, follows=follows)


def gpu_check(
    id: str, *, title: str, aliases: tuple[str, ...] = (), short: str = "", follows: tuple[str, ...] = ()
) -> Callable[[GpuRule], Check]:
    """Make a check of a rule that is asked about every NVIDIA GPU by itself.

    A GPU whose facts could not be read does not keep the others from being judged.
    """
    return lambda rule: Check(id, title=title, gpu_rule=rule, aliases=aliases, short=short, follows=follows)


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
