"""What `gpudoctor lint` answers, and its JSON."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.errors import BadInput
from gpudoctor.lint.rule import Severity


class LintFix(Struct, frozen=True):
    """What to write instead."""

    text: str
    """In words."""
    corrected: str
    """The whole text with every correction made; empty where this one needs something that the text does not tell."""


class LintProblem(Struct, frozen=True, kw_only=True):
    """One rule that fired at one place."""

    rule: str
    code: str
    severity: Severity
    line: int
    """From 1, in the text that was given."""
    summary: str
    happens: str
    """What will happen at run time."""
    fix: LintFix
    source: str
    leads_to: tuple[str, ...] = ()
    """What `hang` and `explain` will call it when the job runs: ids of causes."""


class Understood(Struct, frozen=True, kw_only=True):
    """The start as it was read; None for what the text and the facts do not tell."""

    launcher: str | None = None
    nodes: int | None = None
    processes_per_node: int | None = None
    world_size: int | None = None
    master: str | None = None
    """ "10.0.0.1:61234", as far as it is known."""
    framework: str | None = None
    script: str | None = None


class LintReport(Struct, frozen=True, kw_only=True):
    """The answer. `verdict` is bad when a problem of severity error was found."""

    verdict: Literal["ok", "bad"]
    problems: tuple[LintProblem, ...] = ()
    """The worst first, then in the order of the text."""
    understood: Understood = Understood()
    unknown: tuple[str, ...] = ()
    """What could not be decided from the text and the facts, each with what would decide it."""


class UnreadableLintReport(BadInput):
    """A text is no report of `gpudoctor lint --json`."""


def to_json(report: LintReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1)


def from_json(content: bytes | str) -> LintReport:
    """Raises `UnreadableReport`, with the place in it."""
    try:
        return msgspec.json.decode(content, type=LintReport)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableLintReport(str(error)) from None


def json_schema() -> dict[str, Any]:
    return msgspec.json.schema(LintReport)
