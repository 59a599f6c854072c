"""Arithmetic that sets variables: `((i++))`, `((N = G * 2))`, `let n+=1`, `$((i++))`, `declare -i N=2*2`."""

import re
from collections.abc import Callable

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import SetVariable, Span, Word
from gpudoctor.lint.shell.arithmetic import Unknown, evaluate
from gpudoctor.lint.shell.source import CommandRun
from gpudoctor.lint.shell.variables import ShellVariable, Variables

STEP = lazy_re(r"\s*(?:(\+\+|--)\s*([A-Za-z_]\w*)|([A-Za-z_]\w*)\s*(\+\+|--))\s*", re.ASCII)
ASSIGNMENT = lazy_re(r"\s*([A-Za-z_]\w*)\s*(\*\*|<<|>>|[-+*/%&|^])?=(?!=)(.*)", re.ASCII | re.DOTALL)
ANY = lazy_re(r"(?<![=!<>])=(?!=)|\+\+|--")
LONGEST = 500


def sets_something(text: str) -> bool:
    """Whether an expression may change a variable."""
    return ANY.search(text) is not None


def set_number(variables: Variables, name: str, value: int | None, span: Span) -> None:
    """A variable becomes a number; None: one that nobody knows."""
    text = "" if value is None else str(value)
    place = Word(raw=text, text=None if value is None else text, shown=text or f"${name}", span=span)
    runs = None if value is None else (CommandRun(text),)
    variables.set(name, ShellVariable(SetVariable(name, place, False, "assignment"), runs))


def count(text: str, variables: Variables, span: Span) -> int | None:
    """The value of an expression whose parts, between commas, may set variables; they are set."""
    last: int | None = None
    for part in text.split(",")[:20]:
        last = _one(part[:LONGEST], variables, span)
    return last


def _one(text: str, variables: Variables, span: Span) -> int | None:
    value = _value_of(variables)
    if (step := STEP.fullmatch(text)) is not None:
        name, sign, before = step[2] or step[3], step[1] or step[4], None
        held = value(name)
        if held is not None and re.fullmatch(r"\s*-?\d{1,15}\s*", held or "0", re.ASCII):
            before = int(held or 0)
        after = None if before is None else before + (1 if sign == "++" else -1)
        set_number(variables, name, after, span)
        return after if step[1] else before
    if (match := ASSIGNMENT.fullmatch(text)) is not None:
        name, sign, rest = match.groups()
        result = None
        if not sets_something(rest):
            result = _number(f"{name}{sign}({rest})" if sign else rest, value)
        set_number(variables, name, result, span)
        return result
    if sets_something(text):
        for name in re.findall(r"[A-Za-z_]\w*", text, re.ASCII):
            set_number(variables, name, None, span)
        return None
    return _number(text, value)


def _number(text: str, value: Callable[[str], str | None]) -> int | None:
    try:
        return evaluate(text, value)
    except Unknown:
        return None


def _value_of(variables: Variables) -> Callable[[str], str | None]:
    def text(name: str) -> str | None:
        variable = variables.get(name)
        return variable.text if variable is not None and variable.is_set else None

    return text
