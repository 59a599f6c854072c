"""What other lines of a log state of an error: pip's word on a package, the better message that was raised from it, the
options of the command that gave its numbers, the checkout in which a module was never built.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from gpudoctor.cause import Fix
from gpudoctor.explain.advised import advice
from gpudoctor.explain.beside import COMMAND
from gpudoctor.explain.pins import of_conflict, of_format, of_python
from gpudoctor.explain.report import LogCause
from gpudoctor.explain.requirements import required
from gpudoctor.explain.scan import clean
from gpudoctor.explain.told_by_place import package_of
from gpudoctor.explain.writers import unprefixed
from gpudoctor.lazy import lazy_re

Ends = Mapping[str, Sequence[tuple[int, str]]]
OF_IMPORTS = ("library-missing", "program-error", "version-mismatch")
PLAIN = lazy_re(r"^(?:No remedy is known|Install what the message names|What is installed has not|What meets there)")
"""Fixes that tell no more than the message."""
RAISED_FROM = lazy_re(r"^The above exception was the direct cause of the following exception:")
RAISED = lazy_re(r"^[A-Za-z][\w.]{2,80}(?:Error|Exception|Warning)?: ")
FAR = 40
"""Lines behind an error in which the one that was raised from it ends (our rule of thumb)."""
NOT_DIVISIBLE = lazy_re(r"(?:^|: )(?P<one>\d{1,9}) is not divisible by (?P<other>\d{1,9})$")
NAMED_DIVISIBLE = lazy_re(
    r"(?:^|: |\b[Tt]he )(?P<one>[A-Za-z][\w -]{2,50}?) (?:should|must|has to|have to|needs? to) be (?:evenly )?"
    r"(?:divisible by|a multiple of) (?:the )?(?P<other>[A-Za-z][\w-]{2,40}(?: [a-z][\w-]{1,20}){0,3})[.,]?$"
)
SETTING = lazy_re(r"^[\"']?(?P<name>[a-z]\w{2,60})[\"']? ?(?:\.{3,60} ?|[:=] ?)(?P<value>\d{1,9}),?$")
"""A line in which a program prints one of its settings: Megatron's dots, YAML, JSON."""
NO_PART = lazy_re(r"No module named '(?P<top>\w{1,60})\.(?P<rest>[\w.]{1,120})'$")
FILE = lazy_re(r"^\s*File \"(?P<file>[^\"\n]{2,300})\", line \d")
NO_PLACE = lazy_re(r"cannot import name '(?P<name>\w{1,80})' from '(?P<top>\w{1,60})[\w.]{0,120}' \(unknown location\)")
INSTALLED = lazy_re(r"(?:site|dist)-packages|[/\\]lib[/\\]python3")


def stated(cause: LogCause, ends: Ends) -> LogCause | None:
    """The cause with the fix that other lines state; None where they state none."""
    if cause.cause not in OF_IMPORTS or not cause.evidence:
        return None
    said = cause.evidence[0].text
    told = (
        of_python(said)
        or (PLAIN.match(cause.fix.text) and _of_file(cause, ends))
        or (_about_packages(cause) and of_conflict(said, _lines(ends)))
        or (PLAIN.match(cause.fix.text) and _of_a_folder(said))
        or _raised_from(cause, ends)
        or _of_checkout(cause, ends)
        or _of_numbers(said, ends)
        or _of_settings(said, ends)
    )
    return structs.replace(cause, fix=Fix(told), meaning="", confirm="") if told else None


def _about_packages(cause: LogCause) -> bool:
    return cause.cause != "program-error" or cause.kind in ("dependency-mismatch", "import")


def _lines(ends: Ends) -> Iterator[str]:
    for lines in ends.values():
        for _, text in lines:
            yield unprefixed(text).strip()


def _above(cause: LogCause, ends: Ends) -> str:
    """The file of the frame next above the error."""
    at = cause.evidence[0]
    above = [text for number, text in ends.get(at.file, ()) if number < at.line]
    return next((found["file"] for text in reversed(above) if (found := FILE.search(clean(text)))), "")


def _of_file(cause: LogCause, ends: Ends) -> str:
    return of_format(cause.evidence[0].text, package_of(_above(cause, ends)))


def _raised_from(cause: LogCause, ends: Ends) -> str:
    """What the exception says that a library raised from this one, in words of its own (`raise ... from`)."""
    at, is_next = cause.evidence[0], False
    for number, text in ends.get(at.file, ()):
        line = unprefixed(clean(text))
        if not at.line < number <= at.line + FAR:
            continue
        if RAISED_FROM.match(line):
            is_next = True
        elif is_next and RAISED.match(line):
            told = advice(line.partition(": ")[2])
            return f"Do what the message raised from it says: {told}." if told else ""
    return ""


def _of_checkout(cause: LogCause, ends: Ends) -> str:
    """A part of what is no installed package, and is used from its sources."""
    match = NO_PART.search(cause.evidence[0].text)
    file = (
        _above(cause, ends) if match and cause.fix.text.startswith(f"{match['top'].replace('_', '-')} is inst") else ""
    )
    before, found, _ = file.rpartition(f"/{match['top']}/") if match else ("", "", "")
    if match is None or not found or INSTALLED.search(file):
        return ""
    return (
        f"{match['top']} is used from its sources in {before}: {match['top']}.{match['rest']} is made when these are "
        f"built (python -m pip install --editable . there, or python setup.py build_ext --inplace), or is not in "
        f"this checkout (git status; git submodule update --init --recursive)."
    )


def _of_a_folder(said: str) -> str:
    """A package without an __init__.py (CPython's import.c tells no location of it) in which a name is missing."""
    match = NO_PLACE.search(said)
    if match is None or match["top"] in sys.builtin_module_names:
        return ""
    return (
        f"Python found only a folder {match['top']} without an __init__.py, in which there is no {match['name']}: one "
        f"of that name in the working directory or on PYTHONPATH, or what an uninstall left, stands in place of the "
        f'package (python -c "import {match["top"]}; print({match["top"]}.__path__)" tells where). Move it away, or '
        f"install the package again."
    )


def _of_numbers(said: str, ends: Ends) -> str:
    """The options that gave the two numbers of which an assertion tells no names."""
    match = NOT_DIVISIBLE.search(said)
    one, other = (_options(match[name], ends) for name in ("one", "other")) if match else ([], [])
    if match is None or len(one) != 1 or len(other) != 1:
        return ""
    change = required(f"{one[0]} ({match['one']}) must be divisible by {other[0]} ({match['other']})")
    return f"{change}." if change else ""


def _of_settings(said: str, ends: Ends) -> str:
    """The numbers of what an assertion only names, as the program printed its settings before."""
    match = NAMED_DIVISIBLE.search(said)
    if match is None:
        return ""
    values = [_setting(match[name], ends) for name in ("one", "other")]
    if not all(values):
        return ""
    change = required(" must be divisible by ".join(f"{name} ({value})" for name, value in values))
    return f"{change}." if change else ""


def _setting(name: str, ends: Ends) -> tuple[str, str]:
    """The setting that a sentence calls so, and its value; empty where none is, or several values are told."""
    said = re.sub(r"[ -]", "_", re.sub(r"(?i)^number of ", "num_", name.strip().lower()))
    names = {said, f"num_{said}", f"{said}_size", said.removesuffix("_size")}
    found = {(at["name"], at["value"]) for line in _lines(ends) if (at := SETTING.match(line)) and at["name"] in names}
    return found.pop() if len(found) == 1 else ("", "")


def _options(value: str, ends: Ends) -> list[str]:
    """The options of the program's own command that have this value."""
    found: dict[str, None] = {}
    for line in _lines(ends):
        if COMMAND.match(line) is None or f"{value}" not in line:
            continue
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        start = next((index for index, word in enumerate(words) if word.endswith(".py")), len(words))
        for name, given in zip(words[start:], words[start + 1 :], strict=False):
            if re.fullmatch(rf"--[\w-]+={value}", given):
                found[given.partition("=")[0]] = None
            elif name.startswith("--") and given == value:
                found[name] = None
    return list(found)


__all__ = ["stated"]
