"""What a training that has ended well has used, in two lines at most; nothing of a command that was none."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

GIB = 1 << 30
LEAST_SECONDS = 30.0
"""Of a shorter run a rate says little."""


class StepsSeen(Struct, frozen=True, kw_only=True):
    """Collectives that the armed ranks have begun."""

    counts: tuple[int, ...] = ()
    before: int = 0
    """At the first sight of them."""
    seconds: float = 0.0
    """From the first sight of them to the last."""
    longest_pause: float = 0.0


def lines(steps: StepsSeen, use: bytes) -> Iterator[str]:
    """`use`: the lines of use.jsonl."""
    if not steps.counts:
        return
    if steps.seconds >= LEAST_SECONDS:
        rate = (max(steps.counts) - steps.before) / steps.seconds
        yield (
            f"its ranks began {_amount(steps.counts)} collectives each, {rate:.3g} a second; "
            f"the longest pause was {steps.longest_pause:.0f} s"
        )
    read = list(_read(use))
    gpus = _by_gpu(read)
    words = [f"its processes held {max(line.get('memory', 0) for line in read) / GIB:.3g} GiB at most"] if read else []
    if gpus:
        busy = {index: sum(sample[0] for sample in samples) / len(samples) for index, samples in gpus.items()}
        least = min(busy, key=lambda index: busy[index])
        most = max(gpus, key=lambda index: max(each[1] for each in gpus[index]))
        mean = sum(busy.values()) / len(busy)
        words.append(f"GPUs were busy {mean:.0f}% of the time (GPU {least}: {busy[least]:.0f}%)")
        words.append(f"GPU {most} held {max(each[1] for each in gpus[most]) / GIB:.3g} GiB at most")
    if words:
        yield "; ".join(words)


def _amount(counts: Sequence[int]) -> str:
    return str(counts[0]) if len({*counts}) == 1 else f"{min(counts)} to {max(counts)}"


def _read(use: bytes) -> Iterator[dict[str, Any]]:
    for line in use.splitlines()[1:]:
        try:
            yield msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:  # a disk that was full
            continue


def _by_gpu(read: Sequence[dict[str, Any]]) -> dict[int, list[tuple[float, float]]]:
    """Use in percent and bytes held, of those that were ever at work."""
    by_index: dict[int, list[tuple[float, float]]] = {}
    for line in read:
        for index, use, memory, *_ in line.get("gpus", ()):
            if use is not None and memory is not None:
                by_index.setdefault(int(index), []).append((float(use), float(memory)))
    return {index: samples for index, samples in by_index.items() if any(use for use, _ in samples)}
