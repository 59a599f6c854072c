"""The starts of tests/corpus/starts load, their labels are of their form, and both halves have their share."""

import re
import zlib
from collections import Counter

import pytest

from tests.corpus.starts import Start, starts
from tests.corpus.starts.score import ScoredStart, score

STARTS = tuple(starts())
LEAST_FOUND = {"tune": 0.88, "keep": 0.7}
"""Shares of bad, decidable ones that are found: what was reached is kept (docs/measured/lint.md); fresh ones lower."""
MOST_FALSE_ERRORS = {"tune": 0.0, "keep": 0.015}
"""Of good ones."""
MOST_FALSE_WARNINGS = {"tune": 0.015, "keep": 0.02}
MOST_NOT_UNDERSTOOD = {"tune": 0.035, "keep": 0.08}


def test_starts_load_and_have_their_own_ids() -> None:
    assert STARTS
    assert not [name for name, count in Counter(each.id for each in STARTS).items() if count > 1]
    assert not [each.id for each in STARTS if not each.texts]


def test_every_half_has_its_share_of_bad_and_of_good_ones() -> None:
    for verdict in ("bad", "good"):
        these = [each for each in STARTS if each.verdict == verdict]
        # a handful falls as it falls; a corpus does not
        if len(these) >= 50:
            assert 0.4 <= sum(each.half == "tune" for each in these) / len(these) <= 0.6, verdict


def test_at_most_a_quarter_of_the_bad_ones_is_our_own() -> None:
    bad: list[Start] = [each for each in STARTS if each.verdict == "bad"]
    assert sum(each.source == "own knowledge" for each in bad) <= len(bad) / 4


def test_what_must_be_told_is_in_the_cause_and_not_in_every_cause() -> None:
    """A pattern that our own words for the cause lack is too narrow; one that most causes have tells nothing."""
    bad = [each for each in STARTS if each.verdict == "bad"]
    told = {each.id: [re.compile(pattern, re.IGNORECASE) for pattern in each.must] for each in bad}

    def says(cause: str, of: Start) -> bool:
        return all(pattern.search(cause) for pattern in told[of.id])

    assert not [each.id for each in bad if not says(each.cause, each)]
    suspects = [each for each in bad if sum(says(other.cause, each) for other in bad[::8]) > len(bad) / 8 / 10]
    assert not [each.id for each in suspects if sum(says(other.cause, each) for other in bad) > len(bad) / 5]


@pytest.mark.thorough
def test_what_was_reached_is_kept() -> None:
    """On every second good one and a ninth of the others; `python -m tests.corpus starts` scores all."""
    scored = [
        score(each)
        for each in STARTS
        if each.measured and zlib.crc32(each.id.encode()) % (2 if each.verdict == "good" else 9) == 0
    ]
    for half in ("tune", "keep"):
        these: list[ScoredStart] = [each for each in scored if each.start.half == half]
        bad = [each for each in these if each.start.verdict == "bad" and each.start.decidable != "no"]
        good = [each for each in these if each.start.verdict == "good"]
        assert sum(each.found for each in bad) >= LEAST_FOUND[half] * len(bad), half
        assert sum(bool(each.false_errors) for each in good) <= MOST_FALSE_ERRORS[half] * len(good), half
        assert sum(bool(each.false_warnings) for each in good) <= MOST_FALSE_WARNINGS[half] * len(good), half
        assert sum(not each.understood for each in good) <= MOST_NOT_UNDERSTOOD[half] * len(good), half
