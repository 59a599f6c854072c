"""Going through all that was read of a GPU, whatever fact it is."""

from collections.abc import Iterator
from typing import Any

from gpudoctor.snapshot import Gpu, MissingKind, Reading


def readings(gpu: Gpu) -> Iterator[Reading[Any]]:
    """All of them, in the order in which `Gpu` declares them."""
    for name in gpu.__struct_fields__:
        reading = getattr(gpu, name)
        if isinstance(reading, Reading):
            yield reading


def first_missing(gpu: Gpu, kind: MissingKind) -> Reading[Any] | None:
    """The first reading that is missing for this kind of reason."""
    return next((reading for reading in readings(gpu) if reading.missing_kind == kind), None)
