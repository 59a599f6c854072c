"""What runs on wish only: the table knows its tests, and whoever names a test gets it."""

from pathlib import Path

import pytest

from tests.rest import ALWAYS, is_named, unknown_tests


def test_every_test_of_the_table_is_there() -> None:
    assert unknown_tests(Path(__file__).parent) == []


def test_a_test_of_the_table_has_cases_that_always_run() -> None:
    assert [test for test, cases in ALWAYS.items() if not cases or len(set(cases)) < len(cases)] == []


@pytest.mark.parametrize(
    ("words", "keyword", "named"),
    [
        ([], "", False),
        (["tests/test_hang_lab.py"], "", False),
        (["tests/test_hang_lab.py::test_a_hanging_job[asks_user]"], "", True),
        (["tests"], "asks_user", True),
    ],
)
def test_whoever_names_a_test_gets_it(words: list[str], keyword: str, named: bool) -> None:
    assert is_named(words, keyword) is named
