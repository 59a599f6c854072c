"""The rows of knowledge/refusals, which are read from programs' own checks by docs/refusal_rows.py."""

import ast
from functools import lru_cache
from importlib import resources

from msgspec import Struct

from gpudoctor.knowledge.refused_options import RefusedOptions

CALLS = "calls"
PROGRAMS = frozenset(("megatron", "axolotl", "transformers", "llamafactory"))


@lru_cache(maxsize=8)
def rows_of(program: str) -> tuple[tuple[RefusedOptions, ...], dict[str, object]]:
    """A program's rows, and the defaults that are known; "*" for all others."""
    defaults: dict[str, object] = {}
    rows: list[RefusedOptions] = []
    if program not in PROGRAMS:
        return (), defaults
    text = resources.files("gpudoctor.knowledge").joinpath("refusals", f"{program}.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        when, tab, says = line.partition("\t")
        if tab:
            rows.append(RefusedOptions(program, when, says, "Change one of them, or take it out."))
        elif line.startswith("= "):
            name, _, value = line[2:].partition(" ")
            defaults[name] = ast.literal_eval(value)
    return tuple(rows), defaults


class MadeClass(Struct, frozen=True):
    """A class of a library whose constructor refuses something."""

    positions: tuple[str, ...]
    """The names of what comes without one; empty where their order is not known."""
    defaults: dict[str, object]
    rows: tuple[RefusedOptions, ...]


@lru_cache(maxsize=1)
def made_classes() -> dict[str, MadeClass]:
    """By package and class: "torch.SGD"."""
    text = resources.files("gpudoctor.knowledge").joinpath("refusals", f"{CALLS}.txt").read_text(encoding="utf-8")
    found: dict[str, MadeClass] = {}
    for part in text.removeprefix("@").split("\n@"):
        head, *lines = part.splitlines()
        package, name, *words = head.removeprefix("@").split()
        given = [word.partition("=") for word in words]
        defaults = {each: ast.literal_eval(value) for each, told, value in given if told}
        key = f"{package}.{name}"
        rows = (line.partition("\t") for line in lines)
        found[key] = MadeClass(
            () if head.startswith("@") else tuple(each for each, _, _ in given),
            defaults,
            tuple(RefusedOptions(key, when, says, "Change one of them, or take it out.") for when, _, says in rows),
        )
    return found
