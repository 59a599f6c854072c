"""A command to paste: made of words, each quoted here, so that nobody's text becomes more than the word it stands for.

    command("ssh {:host} {:remote}", address, command("kill -CONT {:pid}", pid))

The template is a literal of ours and goes in as it is, with its pipes and options; a value takes the place of a pair of
braces. What stands behind the colon says what kind of thing the value is, and a value that is none of it, or that
cannot be shown in one line of a terminal, makes no command at all: `command` then gives "", which `Fix` leaves out.
`tests/test_command.py` reads every template in the source: literals only, no placeholder within quotes, known kinds.
"""

import re
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import PurePath
from string import Formatter
from typing import NewType

Command = NewType("Command", str)
"""A line for bash, zsh, dash or ksh. Only this module makes one."""

NONE = Command("")
"""No line: some value was not what its place wanted."""

MOST_CHARACTERS = 4096
"""Longer values are nobody's host or file (PATH_MAX)."""
MOST_WORDS = 1024

KINDS = {
    "host": r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?",
    "address": r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*",
    "login": r"(?:[A-Za-z0-9_][\w.-]*\$?@)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)",
    "endpoint": r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]):[0-9]{1,5}",
    "subnet": r"[0-9A-Fa-f:.]+/[0-9]{1,3}",
    "user": r"[A-Za-z0-9_][\w.-]*\$?",
    "interface": r"[A-Za-z0-9_][\w.:@-]*",
    "name": r"[A-Za-z0-9_][\w.+:@=,/~-]*(?:\[[\w,.-]+\][\w.+:@=,/~-]*)*",
    "variable": r"[A-Za-z_][A-Za-z0-9_]*",
    "number": r"[0-9]+(?:\.[0-9]+)?",
    "numbers": r"[0-9]+(?:[,-][0-9]+)*",
    "pci": r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?",
    "package": r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?",
    "version": r"[A-Za-z0-9][\w.+-]*",
    "device": r"[a-z]+(?::[0-9]{1,4})?",
    "pid": r"[1-9][0-9]{0,9}",
    "python": r"(?:/(?:[^/]+/)*)?(?:python|pypy)[0-9.]*[dmtu]*(?:-dbg|-intel64)?(?:\.exe)?",
}
"""What a value of each kind looks like, whole. host: a name or address; address: no name; login: what ssh is told,
user@host; endpoint: host:port; subnet: an address with the length of its prefix; interface: of the network or of RDMA;
name: a package with its version, a unit, a module, a check, a SLURM node list; numbers: 0,3-5; pci: a PCI address;
package and version: of Python; device: as torch names it, "cuda:3"; python: the file of an interpreter, as the only
value that is ever run."""

SEVERAL = {"words": "", "arguments": "value", "paths": "path", "names": "name", "variables": "variable", "pids": "pid"}
"""Kinds of which one placeholder takes several values, and the kind of each: with one that is not, or none at all,
there is no line. arguments: several words of any look, for the user's own program, and possibly none."""

FREE = ("", "path", "value", "remote", "line")
"""Kinds without a look of their own. "": one word that no program takes for an option; path: likewise, with ./ before a
leading dash; value: any text, also with a leading dash, for what follows `NAME=` or an option that wants a value;
remote: a `Command` as one word, for a shell behind ssh or `sh -c`; line: a `Command` as it stands, as part of this."""

KNOWN = frozenset({*KINDS, *SEVERAL, *FREE})


def command(template: str, /, *values: object) -> Command:
    """The line that `template` becomes with `values`; "" where one of them is not what its place wants.

    Raises `IndexError` or `ValueError` for a template that is wrong in itself, which the tests rule out.
    """
    line, given = [], iter(values)
    for literal, kind in _parsed(template):
        line.append(literal)
        if kind is None:
            continue
        shown = _shown(next(given), kind, begins=not literal or literal[-1] in " \t(;|&")
        if shown is None:
            return NONE
        if not shown:  # no arguments at all
            line[-1] = literal.rstrip()
        line.append(shown)
    return Command("".join(line))


def joined(*lines: Command, by: str = " && ") -> Command:
    """Several commands as one line; "" where one of them could not be said."""
    return Command(by.join(lines)) if all(lines) else NONE


def over_ssh(to: Command, line: Command) -> Command:
    """`line` on another machine, of which ssh is told by `to`; sudo asks for a password on a terminal only."""
    return command("ssh -t {:line} {:remote}" if "sudo " in line else "ssh {:line} {:remote}", to, line)


def is_sayable(text: str) -> bool:
    """Whether `text` shows as itself within one line: no control, no direction mark, no half of a character."""
    return len(text) <= MOST_CHARACTERS and text.isprintable()


def is_a(kind: str, text: str) -> bool:
    """Whether `text` looks like one of `KINDS`."""
    return is_sayable(text) and re.fullmatch(KINDS[kind], text, re.ASCII) is not None


def word(value: str) -> str:
    """`value` as one word that each of these shells reads back.

    shlex.quote leaves a leading "=" bare, and zsh takes `export NAME==eth0` for the path of a command called eth0.
    """
    return f"'{value}'" if value.startswith("=") and "'" not in value else shlex.quote(value)


@cache
def _parsed(template: str) -> tuple[tuple[str, str | None], ...]:
    """The literal parts, each with the kind of the value that follows it."""
    parts = []
    for literal, name, kind, conversion in Formatter().parse(template):
        if name or conversion or (kind not in KNOWN and kind is not None):
            raise ValueError(f"not a placeholder of a command: {{{name}{conversion or ''}:{kind}}}")
        parts.append((literal, kind))
    return tuple(parts)


def _shown(value: object, kind: str, *, begins: bool) -> str | None:
    """`value` as the shell is to read it; None where it is not of its kind. `begins`: it begins a word."""
    if kind in SEVERAL:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError(f"{kind} wants several words, not {value!r}")
        words = [_shown(item, SEVERAL[kind], begins=True) for item in value]
        known = [written for written in words if written is not None]
        is_whole = len(known) == len(words) <= MOST_WORDS and (known or kind == "arguments")
        return " ".join(known) if is_whole else None
    text = str(value)
    if kind in ("remote", "line"):
        return None if not text or not text.isprintable() else shlex.quote(text) if kind == "remote" else text
    if kind == "path" or isinstance(value, PurePath):
        text = f"./{text}" if begins and text.startswith("-") else text
    if kind in KINDS:
        return word(text) if is_a(kind, text) else None
    if not is_sayable(text) or (kind != "value" and begins and (text.startswith("-") or not text)):
        return None
    return word(text)


__all__ = [
    "KINDS",
    "KNOWN",
    "MOST_CHARACTERS",
    "MOST_WORDS",
    "NONE",
    "Command",
    "command",
    "is_a",
    "is_sayable",
    "joined",
    "over_ssh",
    "word",
]
