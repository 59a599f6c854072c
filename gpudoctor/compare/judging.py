"""How a fact of one capture is held against the other's: which is the better one, and how a value is written."""

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from gpudoctor.knowledge.wording import size
from gpudoctor.severity import Severity as Severity

Course = Literal["worse", "better", "downgrade", "upgrade", "changed", "same"]
Judge = Callable[[Any, Any], Course]


class ComparedFact(NamedTuple):
    """How a place of a snapshot is told when two captures are not alike there."""

    words: str
    """What it is called; "{key}" is the key of a mapping."""
    judge: Judge
    severity: Severity = "warning"
    """Where the later one is worse."""
    shown: Callable[[Any], str] = str
    gone: Severity = "info"
    """Where the later one has none."""
    none: str = ""
    """What it means that a field holds nothing; empty: it was not told, and there is nothing to compare."""
    takes_none: bool = False
    """A field that holds None says something: there is no limit."""
    of_gpus: bool = False
    """Follows from how many GPUs there are: not told beside a GPU that is gone or new."""
    of_machine: bool = False
    """Not to be alike on two machines."""


def more(part: float = 0.0) -> Judge:
    """More is better; differences up to this part of the larger value are none."""

    def judge(before: Any, after: Any) -> Course:
        if abs(after - before) <= part * max(abs(before), abs(after)):
            return "same"
        return "worse" if after < before else "better"

    return judge


def fewer(before: Any, after: Any) -> Course:
    """Counts of errors."""
    return "worse" if after > before else "better"


def good(*values: Any) -> Judge:
    """These are the values of a healthy machine."""

    def judge(before: Any, after: Any) -> Course:
        if (before in values) == (after in values):
            return "changed"
        return "worse" if before in values else "better"

    return judge


def changed(before: Any, after: Any) -> Course:
    return "changed"


def version(before: Any, after: Any) -> Course:
    old, new = (_numbers(side) for side in (before, after))
    if old == new or not old or not new:
        return "changed"
    return "downgrade" if new < old else "upgrade"


def _numbers(value: Any) -> tuple[int, ...]:
    if isinstance(value, tuple):
        return value
    # A kernel: "5.15.0-91-generic"; a firmware: "28.39.1002".
    return tuple(int(number) for number in re.findall(r"\d{1,9}", re.split(r"[+~]|-[a-z]", str(value))[0]))


def unlimited(judge: Judge) -> Judge:
    """Of limits: None is none, which is more than any."""
    return lambda before, after: judge(
        float("inf") if before is None else before, float("inf") if after is None else after
    )


def as_set(before: Any, after: Any) -> Course:
    """Of lists: what is missing is worse, what there is beside is not."""
    if set(before) == set(after):
        return "same"
    return "worse" if set(before) - set(after) else "changed"


# ---------------------------------------------------------------- how values are written


def on_off(value: Any) -> str:
    return "on" if value else "off"


def yes_no(value: Any) -> str:
    return "yes" if value else "no"


def dotted(value: Any) -> str:
    return ".".join(map(str, value)) if isinstance(value, tuple) else str(value)


def quoted(value: Any) -> str:
    return repr(value)


def among(words: str) -> Callable[[Any], str]:
    """A code by its word: "0 none, 1 reset"."""
    table = {number: word for number, _, word in (part.strip().partition(" ") for part in words.split(","))}
    return lambda value: table.get(str(value), str(value))


def unit(form: str) -> Callable[[Any], str]:
    return lambda value: form.format(value)


def limit(value: Any) -> str:
    return "unlimited" if value is None else str(value)


def bytes_limit(value: Any) -> str:
    return "unlimited" if value is None else size(value)


def names(value: Any) -> str:
    return ", ".join(map(str, value)) or "none"
