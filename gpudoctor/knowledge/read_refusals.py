"""The rows of knowledge/refusals, which are read from programs' own checks by docs/refusal_rows.py."""

import ast
from functools import lru_cache
from importlib import resources

from gpudoctor.knowledge.refused_options import RefusedOptions

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
