"""SLURM's lists of hosts."""

from collections.abc import Iterator

MOST_HOSTS = 1024
"""Longer SLURM host lists are replaced as a whole."""


def expanded(name: str, ranges: str, suffix: str) -> Iterator[str]:
    """The hosts of "gpu[01-04,07]"; none when they are too many or the list is malformed."""
    numbers: list[str] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 16:
            return
        end = int(last or first)
        if end - int(first) >= MOST_HOSTS - len(numbers):
            return
        numbers += [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
    yield from (f"{name}{number}{suffix}" for number in numbers)
