"""Folded names of nodes, n[01-16], by ClusterShell; without its groups and its set operators."""

from collections.abc import Sequence

from gpudoctor.errors import BadInput
from gpudoctor.fleet.clustershell import unconfigured
from gpudoctor.lazy import lazy_re

with unconfigured():
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

_PLAIN = lazy_re(r"(?:[A-Za-z_.-]|[0-9]{1,18}(?![0-9])){1,253}")
"""No operator of ClusterShell's (`,!&^@*` and brackets), and no number that is too long to count with."""


def expanded(folded: str) -> list[str]:
    """n[01-03] -> n01, n02, n03. The caller has counted how many they are (`hosts`). Raises `ValueError`."""
    try:
        return [str(name) for name in NodeSet(folded, resolver=RESOLVER_NOGROUP)]
    except Exception as error:  # its parser lets some of its own mistakes through, besides NodeSetException
        raise BadInput(str(error)) from None


def folded(names: Sequence[str]) -> str:
    """n01, n02, n03 -> n[01-03]. Raises `ValueError` where one of them is no plain name."""
    if not all(_PLAIN.fullmatch(name) for name in names):
        raise BadInput("no names of nodes")
    try:
        return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
    except Exception as error:
        raise BadInput(str(error)) from None
