"""What a reader of this machine found -> a part of the snapshot: a name that is none costs its own reading only."""

from typing import Any, TypeVar

import msgspec

from gpudoctor.named import place_of, steps, told

T = TypeVar("T")
MOST = 4096
"""Readings that may be lost so: a machine with more odd names is no machine."""


def held(fields: dict[str, Any], structure: type[T]) -> T:
    """Plain data as a part of the snapshot.

    A reading whose value is not of the form that the snapshot wants is missing, with the reason. Raises
    `msgspec.ValidationError` for what stands in no reading, which no reader gives.
    """
    for _ in range(MOST):
        try:
            return msgspec.convert(fields, structure, str_keys=True)
        except msgspec.ValidationError as error:
            if not _lost(fields, place_of(error), told(error, fields)):
                raise
    return msgspec.convert(fields, structure, str_keys=True)


def _lost(fields: dict[str, Any], place: str, reason: str) -> bool:
    """Whether the innermost reading on the way to a place was found; it is missing from now on."""
    here: Any = fields
    readings: list[dict[str, Any]] = []
    for step in steps(place):
        if step == "value" and isinstance(here, dict) and "source" in here:
            readings.append(here)
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            break
    if not readings:
        return False
    readings[-1].pop("value")
    readings[-1]["missing"] = {"reason": reason}
    return True


__all__ = ["held"]
