"""Comparing GPUs of one model with each other: an expectation that comes from peers, not from a table of products."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from gpudoctor.snapshot import Gpu, Reading, require

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


def models(gpus: Sequence[Gpu]) -> list[tuple[Gpu, ...]]:
    """GPUs of the same name, in order of the first of each. Those whose name was not read are left out.

    The table of nvidia-smi shortens names: of one that ends in dots, only GPUs with as much memory are of a model.
    """
    groups: dict[tuple[str, int | None], list[Gpu]] = {}
    for gpu in gpus:
        if gpu.name.is_read:
            is_short = gpu.name.value.endswith("...")
            memory = gpu.memory_total_bytes.value_or(None) if is_short else None
            groups.setdefault((gpu.name.value, memory), []).append(gpu)
    return [tuple(group) for group in groups.values()]


def known(gpus: Iterable[Gpu], fact: Callable[[Gpu], Reading[T]]) -> list[tuple[Gpu, T]]:
    """The GPUs of which a fact was read, with it. What was not is owed to `raise_unread`."""
    return [(gpu, fact(gpu).value) for gpu in gpus if fact(gpu).is_read]


def majority(values: Iterable[H]) -> H | None:
    """The value that more than half have; None when there is no such value."""
    counts = Counter(values)
    if not counts:
        return None
    value, count = counts.most_common(1)[0]
    return value if 2 * count > counts.total() else None


def raise_unread(readings: Iterable[Reading[Any]]) -> None:
    """End a rule that compares: raise `NotRead` when a fact it wanted could not be read.

    Called last, after what could be read was judged, so that one lost GPU does not hide the others' problems. An
    absent fact is no gap beside facts that were read; when all are absent, it raises `NotApplicable`.
    """
    several = list(readings)
    for reading in several:
        if not reading.is_read and reading.missing_kind != "absent":
            require(reading)  # raises, with the reason
    if several and not any(reading.is_read for reading in several):
        require(several[0])  # raises `NotApplicable`
