"""What of a command line may be kept of a process that is not the reader's own, or is handed on: the program, the
script, the launcher, and options that a launcher's file names, with values of a known shape.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from gpudoctor.knowledge import shapes
from gpudoctor.knowledge.credentials import without_credentials
from gpudoctor.knowledge.shapes import HIDDEN, Shape
from gpudoctor.launcher import registry
from gpudoctor.launcher.command_lines import (
    MOST_WORDS,
    base,
    is_python,
    key,
    names_a_module,
    runs_as,
)
from gpudoctor.launcher.programs import FLAGS, WITH_VALUE
from gpudoctor.lazy import lazy_re

OF_A_SCRIPT = frozenset(
    "rank global-rank world-size local-rank node-rank master-addr master-port dist-url init-method".split()  # noqa: SIM905
)
"""The only ones of a script's own, by which one that is started by hand is told its rank."""
URLS = ("dist-url", "init-method")
URL = lazy_re(r"(tcp://)(.+)|env://", re.ASCII)

NAME = lazy_re(r"[A-Za-z0-9_][\w.:+-]{0,99}", re.ASCII)
"""A program, a script or a module."""
CODE = lazy_re(
    r"from (?:multiprocessing\.(?:spawn|forkserver|resource_tracker|semaphore_tracker)|gpudoctor(?:\.\w{1,30}){0,4})"
    r" import \w{1,30}",
    re.ASCII,
)
"""What `python -c` is given by multiprocessing and by us."""
OF_TORCH = "compile_worker/__main__.py"
"""A script that its folder names."""

LONGEST_WORD = 512
Value = Callable[[Shape, str], str]
"""What an option's value is shown as."""


@cache
def options() -> dict[Shape, frozenset[str]]:
    """Options that are kept by name, and what a value of each looks like. `_` and `-` are the same."""
    every = registry.every()
    return {
        "plain": frozenset(name for traits in every for name in traits.kept_numbers.split())
        | {"rank", "global-rank", "world-size", "local-rank"},
        "hosts": frozenset(name for traits in every for name in traits.kept_hosts.split()),
        "id": frozenset(name for traits in every for name in traits.kept_ids.split()),
    }


@cache
def switches() -> frozenset[str]:
    """Options without a value, of the launchers whose options stand before a script."""
    takes_none: dict[str, bool] = {}
    for launcher in registry.every():
        if launcher.runs_as in registry.rank_setters():
            for spec in (spec for form in launcher.forms for spec in form.grammar.options):
                for spelling in spec.spellings:
                    takes_none[key(spelling)] = takes_none.get(key(spelling), True) and spec.values == 0
    return frozenset(name for name, is_switch in takes_none.items() if is_switch)


@cache
def _kinds() -> dict[str, Shape]:
    return {name: kind for kind, names in options().items() for name in names}


def takes_next(words: Sequence[str]) -> bool:
    """Whether the first of `words` can be the value of the option before it."""
    return bool(words) and (not words[0].startswith("-") or re.fullmatch(r"-\d+", words[0]) is not None)


def kept(command: Sequence[str], value: Value = shapes.kept) -> tuple[str, ...]:
    """A command line of which only the program, the script and known options are left; all else is `HIDDEN`.

    Doing it twice changes nothing more. An option that is not known is "--***", so that what is there still reads as
    options, values and a script.
    """
    return tuple(_program(list(command[:MOST_WORDS]), value))


def brief(command: Sequence[str]) -> str:
    """A command line in a few words: "python train.py", "torchrun --nnodes 2 train.py"."""
    return " ".join(word for word in kept(command) if HIDDEN not in word)


def _program(words: list[str], value: Value) -> Iterator[str]:
    if not words:
        return
    name = base(words.pop(0))
    yield _named(name)
    if is_python(name):
        yield from _python(words, value)
    elif runs_as(name.removesuffix(".py")) in registry.rank_setters():
        yield from _launcher(words, value)
    elif name.endswith(".py"):
        yield from _script(words, value)
    else:
        yield from _around(words, value)


def _named(name: str) -> str:
    return name if NAME.fullmatch(name) else HIDDEN


def _python(words: list[str], value: Value) -> Iterator[str]:
    while words:
        word = words.pop(0)
        if word == "-c":
            yield word
            match = CODE.match(words.pop(0)) if words else None
            yield match[0] if match else HIDDEN
            yield from (word if word == "--multiprocessing-fork" else HIDDEN for word in words)
            return
        if word in WITH_VALUE:
            yield word
            if words:
                yield HIDDEN
                words.pop(0)
        elif word.startswith("-") and len(word) > 1 and not names_a_module(word):
            yield word if set(word[1:]) <= FLAGS else f"--{HIDDEN}"
        else:
            starter = runs_as(base(word).removesuffix(".py"))
            if names_a_module(word):
                yield word
                word = words.pop(0) if words else ""
                starter = runs_as(word, module=True)
            yield OF_TORCH if word.endswith(f"/{OF_TORCH}") or word == OF_TORCH else _named(base(word))
            yield from (_launcher if starter in registry.rank_setters() else _script)(words, value)
            return


def _launcher(words: list[str], value: Value) -> Iterator[str]:
    """Options of the launcher's own, and the script that it starts."""
    if words and words[0] in ("launch", "run"):
        yield words.pop(0)
    while words:
        word = words.pop(0)
        if word.startswith("-") and word not in ("-", "--"):
            yield from _option(word, words, value)
        elif word == "--":
            yield word
        elif is_python(base(word)):
            yield from _program([word, *words], value)
            return
        else:
            yield _named(base(word))
            yield from _script(words, value)
            return


def _option(word: str, words: list[str], value: Value) -> Iterator[str]:
    """One option, with its value where it has one."""
    written, equals, given = word.partition("=")
    name = key(written)
    if name in switches() and not equals:
        yield written
    elif equals:
        yield f"{written}={_value(name, given, value)}" if _is_known(name) else f"--{HIDDEN}={HIDDEN}"
    else:
        yield written if _is_known(name) else f"--{HIDDEN}"
        if takes_next(words):
            yield _value(name, words.pop(0), value)


def _is_known(name: str) -> bool:
    return name in _kinds() or name in URLS


def _value(name: str, given: str, value: Value) -> str:
    if name in URLS:
        match = URL.fullmatch(given)
        return f"{match[1]}{value('hosts', match[2])}" if match and match[1] else given if match else HIDDEN
    return value(_kinds()[name], given) if name in _kinds() else HIDDEN


def _script(words: list[str], value: Value) -> Iterator[str]:
    """The words of a script, which are its own: only what tells it its rank is kept."""
    while words:
        word = words.pop(0)
        if word.startswith("-") and key(word.partition("=")[0]) in OF_A_SCRIPT:
            yield from _option(word, words, value)
        else:
            yield HIDDEN


def _around(words: list[str], value: Value) -> Iterator[str]:
    """The words of srun, of mpirun, of a shell or of any other program, up to a Python or launcher that it starts."""
    while words:
        word = words.pop(0)
        name = base(word)
        if is_python(name) or name.endswith(".py") or runs_as(name):
            yield from _program([word, *words], value)
            return
        attached = re.fullmatch(r"-[NncG][0-9]{1,6}", word)
        if attached or (word.startswith("-") and _is_known(key(word.partition("=")[0]))):
            yield from (word,) if attached else _option(word, words, value)
        else:
            yield f"--{HIDDEN}" if word.startswith("--") and "=" not in word else HIDDEN


def recorded(words: Sequence[str], *, own: bool) -> tuple[str, ...]:
    """A command line as evidence holds it: of the reader's own process bounded, and without what is written as a
    secret; of another's only what `kept` leaves."""
    bounded = [word[:LONGEST_WORD].encode("utf-8", "backslashreplace").decode()[:LONGEST_WORD] for word in words]
    return tuple(_masked(bounded[:MOST_WORDS])) if own else kept(bounded)


def _masked(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        own = without_credentials(word)
        # "--api-key VALUE": the two belong together.
        if before.startswith("-") and without_credentials(f"{before} {word}") != f"{without_credentials(before)} {own}":
            own = HIDDEN
        yield own
        before = word
