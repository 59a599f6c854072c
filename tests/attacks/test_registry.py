"""The list of attacks itself: none is counted twice."""

from collections import Counter

from tests.attacks.__main__ import gathered
from tests.attacks.registry import SURFACES


def test_an_attack_is_counted_once_and_has_a_surface() -> None:
    found = gathered()
    assert found
    twice = [each for each, count in Counter((each.way, each.weakness) for each in found).items() if count > 1]
    assert not twice
    assert {each.surface for each in found} <= set(SURFACES)
