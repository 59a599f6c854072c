"""Names of nodes in sentences: many of them folded, as schedulers write them."""

from collections.abc import Iterable

LONGEST, SHOWN = 100, 3
"""Of a folded list in a sentence; names of a longer one."""


def folded(nodes: Iterable[str]) -> str:
    """ "n[01-07,09]"; names that have nothing in common are joined by commas."""
    names = list(dict.fromkeys(nodes))
    if len(names) < 2:
        return "".join(names)
    try:
        from gpudoctor.fleet import nodeset

        return nodeset.folded(names)
    except (ValueError, ImportError):  # ImportError: a doctor without its dependencies still speaks
        return ",".join(names)


def briefly(nodes: Iterable[str], longest: int = LONGEST) -> str:
    """Folded where that is short; else how many they are, and the first of them."""
    names = list(dict.fromkeys(nodes))
    whole = folded(names)
    return whole if len(whole) <= longest else f"{len(names)} nodes ({', '.join(names[:SHOWN])}, ...)"


def have(nodes: Iterable[str]) -> str:
    """The names with their verb: "n01 has", "n[01-03] have"."""
    names = list(dict.fromkeys(nodes))
    return f"{folded(names)} {'has' if len(names) == 1 else 'have'}"
