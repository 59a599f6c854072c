"""Giving variables values that are known piece by piece."""

from gpudoctor.lint.model import SetVariable, Word
from gpudoctor.lint.shell.source import CommandRun
from gpudoctor.lint.shell.variables import ShellVariable, Variables

MOST_POSITIONAL = 9


def bind(
    variables: Variables,
    name: str,
    place: Word,
    runs: tuple[CommandRun, ...] | None,
    setting: SetVariable | None = None,
) -> None:
    """Give a variable a value; None: one that nobody knows."""
    variables.set(name, ShellVariable(setting or SetVariable(name, place, False, "assignment"), runs))


def bind_items(variables: Variables, name: str, place: Word, items: tuple[tuple[CommandRun, ...], ...]) -> None:
    variables.set(name, ShellVariable(SetVariable(name, place, False, "assignment"), items[0] if items else (), items))


def positional(arguments: list[tuple[CommandRun, ...]], place: Word, shell: Variables) -> None:
    """`$1`, `$2`, `$@` of a shell."""
    for number in range(1, MOST_POSITIONAL + 1):
        if number <= len(arguments):
            bind(shell, str(number), place, arguments[number - 1])
        else:
            shell.unset(str(number))
    bind_items(shell, "@", place, tuple(arguments))
