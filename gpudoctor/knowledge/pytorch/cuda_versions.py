"""Which driver serves which CUDA version.

Sources: NVIDIA's CUDA compatibility guide (minor-version table: 13.x >= 580, 12.x >= 525, 11.x >= 450.80.02) and the
driver table of the CUDA release notes; pairs of driver branch and CUDA as recorded nvidia-smi outputs show them.
"""

import re

Version = tuple[int, ...]

OLDEST_DRIVER: dict[int, Version] = {11: (450, 80, 2), 12: (525,), 13: (580,)}
"""CUDA major -> the oldest Linux driver that runs any program of it (minor-version compatibility)."""

TOOLKIT_DRIVER: dict[tuple[int, int], Version] = {
    (11, 8): (520, 61, 5),
    (12, 0): (525, 60, 13),
    (12, 1): (530, 30, 2),
    (12, 2): (535, 54, 3),
    (12, 3): (545, 23, 6),
    (12, 4): (550, 54, 14),
    (12, 5): (555, 42, 2),
    (12, 6): (560, 28, 3),
    (12, 8): (570, 26),
    (12, 9): (575, 51, 3),
    (13, 0): (580, 65, 6),
}
"""CUDA version -> the driver that its toolkit brings: the oldest one that serves all its features, PTX included."""

BRANCH_SERVES: dict[int, tuple[int, int]] = {
    418: (10, 1),
    450: (11, 0),
    470: (11, 4),
    510: (11, 6),
    515: (11, 7),
    520: (11, 8),
    525: (12, 0),
    530: (12, 1),
    535: (12, 2),
    545: (12, 3),
    550: (12, 4),
    555: (12, 5),
    560: (12, 6),
    565: (12, 7),
    570: (12, 8),
    575: (12, 9),
    580: (13, 0),
    590: (13, 1),
    595: (13, 2),
    610: (13, 3),
}
"""Driver branch -> the newest CUDA that it serves."""


def parsed(version: str) -> Version:
    """ "580.95.05" -> (580, 95, 5). What follows the numbers is passed over; () when there are none."""
    match = re.match(r"\d{1,9}(\.\d{1,9})*", version.strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def minor(version: str) -> tuple[int, int] | None:
    """A CUDA version's (major, minor): "13.0" -> (13, 0), "12.4.1" -> (12, 4); None for anything else."""
    numbers = parsed(version)
    return (numbers[0], numbers[1]) if len(numbers) > 1 else None


def runs(driver: str, cuda: tuple[int, int]) -> bool | None:
    """Whether a driver runs programs built with this CUDA; None for drivers or CUDA versions not in the table."""
    numbers, oldest = parsed(driver), OLDEST_DRIVER.get(cuda[0])
    return numbers >= oldest if numbers and oldest else None


def served_by(driver: str) -> tuple[int, int] | None:
    """The newest CUDA that a driver serves, by its branch; None for branches older than the table.

    An unlisted branch counts as the next older one: a newer driver serves no less.
    """
    numbers = parsed(driver)
    known = [branch for branch in BRANCH_SERVES if numbers and branch <= numbers[0]]
    return BRANCH_SERVES[max(known)] if known else None


def shown(version: Version) -> str:
    """ "450.80.02": NVIDIA writes the third number of a driver version with two digits; "525", "13.0" as they are."""
    return ".".join(f"{part:02d}" if place == 2 else str(part) for place, part in enumerate(version))
