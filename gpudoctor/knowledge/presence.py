"""Readings of things that a machine may legitimately lack."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gpudoctor.snapshot import Reading

T = TypeVar("T")


def if_present(reading: Reading[T]) -> T | None:
    """The value, or None where this machine has no such thing. Raises `NotRead` when it could not be read."""
    return None if reading.missing_kind == "absent" else reading.value


def read_first(items: Iterable[T], reading: Callable[[T], Reading[Any]]) -> list[T]:
    """The items whose reading has a value, then the others, else in their order.

    A rule that takes `.value` of one after the other has then spoken of all it could see before `NotRead` ends it.
    """
    return sorted(items, key=lambda item: not reading(item).is_read)
