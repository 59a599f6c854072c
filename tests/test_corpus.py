"""The thresholds of tests/corpus, on a part of it: what was once answered rightly stays so, and nobody is accused.

`python -m tests.corpus` scores all of it, and docs/measured/explain.md has the history.
"""

import zlib
from pathlib import Path

import pytest

from tests.corpus import cases as of_cases
from tests.corpus.cases import cases, labels_of
from tests.corpus.cut import cut
from tests.corpus.score import agreed, first_choices, majority, score

EVERY = 4
"""One of so many logs is asked, and every healthy one: a few seconds."""
RIGHT = {"tune": 0.94, "keep": 0.85}
"""Shares of right answers that it does not fall below."""
FRESH: tuple[str, ...] = ()
"""Of these families only the first answers are measured; they hold nothing until they have been worked on."""
MOST_WRONG_AND_SURE = 0.02
MOST_HEALTHY_ACCUSED = 5
MOST_FAILED_CALLED_HEALTHY = 1
"""Of both halves; both are to be 0."""


@pytest.mark.thorough
def test_what_was_reached_is_kept() -> None:
    held = [case for case in cases() if not case.kind.startswith(FRESH)]
    asked = [case for case in held if case.verdict == "healthy" or zlib.crc32(case.id.encode()) % EVERY == 0]
    scored = [score(case) for case in asked]
    healthy = [each for each in scored if each.case.verdict == "healthy"]
    failed = [each for each in scored if each.case.verdict != "healthy"]
    assert len(failed) > 100 and len(healthy) > 100
    assert sum(each.status == 1 for each in healthy) <= MOST_HEALTHY_ACCUSED, "healthy ones are accused"
    assert sum(each.status == 0 for each in failed) <= MOST_FAILED_CALLED_HEALTHY, "failed ones are called healthy"
    assert sum(each.wrong_and_sure for each in failed) <= MOST_WRONG_AND_SURE * len(failed), "wrong, and sure of it"
    for half, share in RIGHT.items():
        these = [each for each in failed if each.case.half == half]
        assert sum(not each.wrong for each in these) >= share * len(these), f"fewer right in {half}"
    tune = [each for each in scored if each.case.half == "tune"]
    assert not [each.case.id for each in tune if each.case.verdict == "healthy" and each.status == 1]
    assert not [each.case.id for each in tune if each.case.verdict != "healthy" and each.status == 0]


MOST_NAMED_WITHOUT_THEIR_LINES = 0.08
"""Of the logs whose decisive lines were cut out; some hold a second fault."""


@pytest.mark.thorough
def test_without_its_decisive_lines_a_log_is_not_explained_by_another_cause() -> None:
    asked = (case for case in cases() if zlib.crc32(case.id.encode()) % EVERY == 0)
    cuts = list(cut(asked, ways=("without the decisive lines",)))
    assert len(cuts) > 100
    named = [each for each in cuts if each.outcome == "another, likely or surer"]
    assert len(named) <= MOST_NAMED_WITHOUT_THEIR_LINES * len(cuts), [each.case.id for each in named]


def test_a_second_reader_has_read_both_halves() -> None:
    read_twice = [case for case in cases() if case.second]
    for half in ("tune", "keep"):
        these = [case for case in read_twice if case.half == half]
        assert len(these) >= 300, half
        # neither a copy of the first labels nor another corpus's
        assert 0.5 < sum(agreed(case) for case in these) / len(these) < 0.95, half


def test_a_third_reader_has_read_what_a_majority_is_counted_of() -> None:
    keep = [case for case in cases() if case.half == "keep" and case.third]
    assert len(keep) >= 500
    # as of the second: neither a copy of the first labels nor another corpus's
    alike = sum(bool(first & last) for first, *_, last in map(first_choices, keep))
    assert 0.5 < alike / len(keep) < 0.95
    assert sum(bool(majority(case)) for case in keep) > 0.9 * len(keep)


@pytest.mark.parametrize(
    ("first", "second", "third", "expected"),
    [
        ("data", ("data", "shape"), ("config",), {"data"}),
        ("compile", ("config",), ("import",), {"import"}),
        ("data", ("config", "shape"), ("nan", "shape"), {"shape"}),
        ("data", ("config", "shape"), ("nan", "data"), {"data"}),
        ("data", ("config",), ("nan",), set()),
        ("data", ("data",), (), {"data"}),
        ("data", (), ("config",), set()),
    ],
)
def test_the_majority_of_readers(
    first: str, second: tuple[str, ...], third: tuple[str, ...], expected: set[str]
) -> None:
    case = next(cases())._replace(class_=first, equally=(), second=second, third=third)
    assert majority(case) == expected


@pytest.mark.parametrize("text", ["a-case: no-class", "a-case: ", "a-case: data | data", "a-case: data\na-case: shape"])
def test_a_label_has_known_classes_once(text: str) -> None:
    with pytest.raises(AssertionError, match="a-case"):
        labels_of(text)


@pytest.mark.parametrize("reader", ["SECOND", "THIRD"])
def test_a_label_of_no_case_is_a_mistake(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labels.txt").write_text("# whoever\nno-such-case: data\n")
    monkeypatch.setattr(of_cases, reader, tmp_path / "labels.txt")
    with pytest.raises(AssertionError, match="no-such-case"):
        list(cases())
