"""Conditions that count: what they name is alike on all ranks in one round."""

import ast
import re
from collections.abc import Iterable

from gpudoctor.hang.conditions import name_of, parsed
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Enclosing

_COUNTS = lazy_re(r"step|epoch|(?<!wr)(?<!cr)iter|batch_idx|max_|limit|\b[in]\b", re.I)  # no writer, no criterion
_COUNTERS = lazy_re(
    r"step|epoch|(?<!wr)(?<!cr)iter|batch_idx|max_(?:batches|samples|updates)|limit_(?:train|val)|\b[in]\b", re.I
)
"""Names of counters themselves: `kl > limit` counts nothing."""
_ALIKE = frozenset(("len", "int", "min", "max", "range", "abs", "round", "isinstance", "hasattr", "getattr"))
"""Calls in a condition that say the same on every rank, where what they are given is counted."""


def counts(condition: str) -> bool:
    """Whether a condition compares counters and nothing else: `stopper.step(loss)` calls what may answer anything."""
    if not _COUNTERS.search(condition):
        return False
    tree = parsed(condition)
    return tree is None or all(_says_alike(node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _says_alike(call: ast.Call) -> bool:
    """Whether it is a function of Python's own, and no method: `losses.max()` is each rank's."""
    return isinstance(call.func, ast.Name) and call.func.id in _ALIKE


_SAME = lazy_re(r"every|interval|freq|period|total|num_|length|size|[A-Z][A-Z_\d]*", re.ASCII)
"""Names of what is set for all ranks alike."""


def only_counts(condition: str, around: Iterable[Enclosing] = ()) -> bool:
    """Whether all that a condition names are counters and settings: it is the same on every rank in every step.
    `around`: what is around it, of which a loop over a range counts by any name."""
    tree = parsed(condition)
    if tree is None:
        return False
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Call) and not _says_alike(node) for node in nodes):
        return False
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    leaves = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner]
    # `bar.n` is whatever that bar has counted, and not the steps of the loop.
    names = {name_of(node) for node in leaves if len(name_of(node)) > 1 or isinstance(node, ast.Name)}
    by_range = (loop.text.partition(" in ") for loop in around if loop.kind == "for")
    by_loops = {target for target, _, over in by_range if over.startswith("range(")}
    known = all(_COUNTS.search(name) or _SAME.search(name) or name in {*_ALIKE, *by_loops} for name in names)
    return known and len(names) == len({name_of(node) for node in leaves})
