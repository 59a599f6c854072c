"""Two captures, field by field: every place in which they are not the same. Knows nothing of what a field means.

A place is the fields from the snapshot on, `[]` after a list whose items have a name of their own, `{}` after a
mapping: "nvidia.gpus[].pcie_width", "environment{}".
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor.compare.pairing import KEYS, Pairing
from gpudoctor.snapshot import Missing, Reading

NONE = "none"
"""In the place of a value: the machine has no such thing."""


class Spot(Struct, frozen=True):
    """One place of two captures, where they are not the same."""

    place: str
    items: tuple[tuple[Any, Any], ...]
    """The items of lists, and keys of mappings, that lead there, in both captures; None where one has none."""
    before: Any
    after: Any
    """`NONE` where that capture has none; a `Missing` where it could not be read."""
    readings: tuple[Reading[Any] | None, Reading[Any] | None] = (None, None)
    """The facts that hold both values, and not other items of a list beside."""


def spots(before: Struct, after: Struct, pairing: Pairing) -> Iterator[Spot]:
    """Where two structures of one type differ."""
    yield from _Differing(pairing).fields(before, after, Spot("", (), before, after))


class _Differing:
    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing

    def fields(self, before: Struct, after: Struct, at: Spot) -> Iterator[Spot]:
        for name in before.__struct_fields__:
            place = f"{at.place}.{name}" if at.place else name
            yield from self._values(getattr(before, name), getattr(after, name), _at(at, place))

    def _values(self, before: Any, after: Any, at: Spot) -> Iterator[Spot]:
        if isinstance(before, Reading) and isinstance(after, Reading):
            yield from self._readings(before, after, at)
        elif before == after:
            return
        elif isinstance(before, Struct) and isinstance(after, Struct):
            yield from self.fields(before, after, at)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from self._mappings(before, after, at)
        elif _has_names(before) or _has_names(after):
            yield from self._mappings(self._named(before, False), self._named(after, True), at, "[]")
        else:
            yield msgspec.structs.replace(at, before=before, after=after)

    def _readings(self, before: Reading[Any], after: Reading[Any], at: Spot) -> Iterator[Spot]:
        at = msgspec.structs.replace(at, readings=(before, after))
        if before.is_read and after.is_read:
            yield from self._values(before.value, after.value, at)
        elif before.is_read or after.is_read:
            value = before.value if before.is_read else after.value
            empty: Any = () if isinstance(value, tuple) else {} if isinstance(value, Mapping) else NONE
            old, new = (_side(reading, empty) for reading in (before, after))
            if isinstance(old, Missing) or isinstance(new, Missing):
                yield msgspec.structs.replace(at, before=old, after=new)
            else:
                yield from self._values(old, new, at)

    def _mappings(
        self, before: Mapping[Any, Any], after: Mapping[Any, Any], at: Spot, sign: str = "{}"
    ) -> Iterator[Spot]:
        whole = at.readings if sign == "[]" else (None, None)
        if not at.items:
            at = msgspec.structs.replace(at, readings=(None, None))
        for key in dict.fromkeys((*before, *after)):
            old, new = before.get(key, NONE), after.get(key, NONE)
            names = (old if sign == "[]" else key, new if sign == "[]" else key)
            steps = (None if old is NONE else names[0], None if new is NONE else names[1])
            step = msgspec.structs.replace(at, place=at.place + sign, items=(*at.items, steps))
            if old is NONE or new is NONE:
                yield msgspec.structs.replace(step, before=old, after=new, readings=whole)
            else:
                yield from self._values(old, new, step)

    def _named(self, items: tuple[Struct, ...], is_later: bool) -> dict[str, Struct]:
        """Items by what they are known by; of several with one name, each with its count."""
        by_name: dict[str, Struct] = {}
        for item in items:
            key, count = self._pairing.key(item, is_later=is_later), 1
            while (name := key if count == 1 else f"{key} ({count})") in by_name:
                count += 1
            by_name[name] = item
        return by_name


def _at(at: Spot, place: str) -> Spot:
    return msgspec.structs.replace(at, place=place)


def _side(reading: Reading[Any], empty: Any) -> Any:
    if reading.is_read:
        return reading.value
    return empty if reading.missing_kind == "absent" else reading.missing


def _has_names(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and type(value[0]).__name__ in KEYS
