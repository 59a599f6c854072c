"""Nodes by what they have, the most common first."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True)
class Party(Generic[V]):
    """Nodes that have the same. (A generic named tuple is for Python 3.11.)"""

    value: V
    nodes: tuple[str, ...]


def parties(values: Mapping[str, V]) -> list[Party[V]]:
    """By value; of two that are as common, the one of the earlier node comes first."""
    nodes_by_value: dict[V, list[str]] = {}
    for node, value in values.items():
        nodes_by_value.setdefault(value, []).append(node)
    return [
        Party(value, tuple(nodes)) for value, nodes in sorted(nodes_by_value.items(), key=lambda item: -len(item[1]))
    ]
