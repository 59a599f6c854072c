"""Since which release a library has a name, a module, an argument or a method, and since which it has it no more.

The tables of knowledge/library_names were read from wheels by tests/lab/library_names.py: what came or went between two
releases that were read, and of what went the place that has it now. A name of which they tell nothing was there in all
of them, or in none.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from gpudoctor.lazy import lazy_re

FOLDER = "library_names"
MODELS = "transformers.models"
"""Of whose modules the names are told together."""
OF_FAMILY = lazy_re(
    r"(?:Config|(?:PreTrained)?Model|For[A-Z]\w+|Tokenizer(?:Fast)?|(?:Image|Video)?Processor|FeatureExtractor)$"
)
"""What stands behind a model's name in the names of its classes: `Qwen2_5_VLConfig` is none of `Qwen2*`."""


class Availability(NamedTuple):
    package: str
    """As pip calls it."""
    name: str
    first: str
    """The oldest release that was read and has it; empty: the oldest of all has it."""
    before: str
    """The one before that."""
    last: str
    """The newest that has it, where a later one has not."""
    gone: str
    """The oldest that has it no more; empty: the newest of all has it."""
    today: str
    """The module that has it now, or the argument that came in its place; empty: not known."""


def imported(module: str, name: str) -> Availability | None:
    """Of `from module import name`, and of `module.name`."""
    within = MODELS if module.startswith(f"{MODELS}.") else module
    return _found(module.partition(".")[0], ("name", within), name) or submodule(f"{module}.{name}")


def submodule(module: str) -> Availability | None:
    """Of `import module`; of the part of it that came or went."""
    top = module.partition(".")[0]
    while "." in module:
        if (span := _found(top, ("module",), module)) is not None:
            return span
        module = module.rpartition(".")[0]
    return None


def argument(call: str, name: str) -> Availability | None:
    """Of a class, a class's method or a function, whichever library's it is; None where two have one of that name."""
    return _only(("arg", call), name)


def newest_argument(top: str, call: str) -> Availability | None:
    """That of a call which came last; None where two came at once, or none."""
    came = [span for span in _every(top, f"arg {call}") if span.first and not span.gone]
    releases = _lines(top)[0].split()
    newest = max((releases.index(span.first) for span in came), default=0)
    found = [span for span in came if releases.index(span.first) == newest]
    return found[0] if len(found) == 1 else None


def attribute(owner: str, name: str) -> Availability | None:
    """Of an object of that class; None where two libraries have one of that name."""
    return _only(("attr", owner), name)


@cache
def libraries() -> frozenset[str]:
    """The modules of which a table is there, by their first part."""
    folder = resources.files("gpudoctor.knowledge").joinpath(FOLDER)
    return frozenset(each.name.partition(".")[0] for each in folder.iterdir() if each.name.endswith(".txt"))


def newest_release(top: str) -> str:
    """How far its table goes."""
    return _lines(top)[0].split()[-1]


@cache
def came(top: str, call: str) -> frozenset[str]:
    """What releases brought and took away of a call's arguments."""
    return frozenset(span.name for span in _every(top, f"arg {call}")) if top in libraries() else frozenset()


def _only(head: Sequence[str], name: str) -> Availability | None:
    found = [span for top in sorted(libraries()) if (span := _found(top, head, name))]
    return found[0] if len(found) == 1 else None


def _found(top: str, head: Sequence[str], name: str) -> Availability | None:
    """One span, or None where it came, went and came again."""
    if top not in libraries():
        return None
    spans = list(_spans(top, " ".join(head), name))
    return spans[0] if len(spans) == 1 else None


def _spans(top: str, head: str, name: str) -> Iterator[Availability]:
    for span in _every(top, head):
        told = span.name
        if told == name or (told.endswith("*") and name.startswith(told[:-1]) and OF_FAMILY.match(name, len(told) - 1)):
            yield span._replace(name=name)


def _every(top: str, head: str) -> Iterator[Availability]:
    lines = _lines(top)
    package, *releases = lines[0].split()
    parts = (part for line in lines if line.startswith(f"{head} ") for part in line[len(head) + 1 :].split(" | "))
    for part in parts:
        first, gone, *names = part.split()
        for each in names:
            name, _, today = each.partition("=")
            yield Availability(
                package=package,
                name=name,
                first="" if first == "-" else first,
                before="" if first == "-" else releases[releases.index(first) - 1],
                last="" if gone == "-" else releases[releases.index(gone) - 1],
                gone="" if gone == "-" else gone,
                today=today,
            )


@cache  # whose class it is, all are asked
def _lines(top: str) -> tuple[str, ...]:
    folder = resources.files("gpudoctor.knowledge").joinpath(FOLDER)
    return tuple(folder.joinpath(f"{top}.txt").read_text(encoding="utf-8").splitlines())


__all__ = [
    "Availability",
    "argument",
    "attribute",
    "came",
    "imported",
    "libraries",
    "newest_argument",
    "newest_release",
    "submodule",
]
