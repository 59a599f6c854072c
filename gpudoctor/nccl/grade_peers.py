"""Grading against peers: for hardware of which nothing is published, and for --find-slow.

A value is slow when its modified z-score, 0.6745 (x - median) / MAD, is below -2 and it is more than 10% below the
median: the first alone would call the slowest of very equal nodes slow, the second alone would not see how much nodes
of this kind differ. (The rule of Azure's and Megatron-LM's straggler checks.)
"""

import statistics
from collections.abc import Mapping
from typing import NamedTuple

LEAST_Z = -2.0
LEAST_SHARE = 0.9
CONSISTENT = 0.6745
"""Makes the median absolute deviation comparable with a standard deviation, for a normal distribution."""
FEWEST = 3
"""Of two, nobody can tell which one is slow."""


class Compared(NamedTuple):
    """One of the peers."""

    value: float
    median: float
    z: float
    """-inf where all others are equal and this one is below them."""
    is_slow: bool

    @property
    def share(self) -> float:
        """Of the median."""
        return self.value / self.median if self.median else 1.0


def grade_against_peers(values: Mapping[str, float]) -> dict[str, Compared]:
    """Every peer by name; {} for fewer than three. Higher values are better."""
    if len(values) < FEWEST:
        return {}
    median = statistics.median(values.values())
    deviation = statistics.median(abs(value - median) for value in values.values())
    return {name: _compared(value, median, deviation) for name, value in values.items()}


def _compared(value: float, median: float, deviation: float) -> Compared:
    below = value - median
    z = CONSISTENT * below / deviation if deviation > 0 else 0.0 if below == 0 else float("inf") * below
    return Compared(value, median, z, z < LEAST_Z and value < LEAST_SHARE * median)
