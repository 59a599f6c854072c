"""What runs on wish only: the table knows its tests, and whoever names a test gets it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rest import ALWAYS, is_named


def test_every_case_of_the_table_is_there() -> None:
    files = sorted({test.partition("::")[0] for test in ALWAYS})
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-n0",
            "--collect-only",
            "--quiet",
            "--rest",
            *(f"tests/{file}" for file in files),
        ],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    there = set(done.stdout.splitlines())
    assert [
        f"{test}[{case}]" for test, cases in ALWAYS.items() for case in cases if f"tests/{test}[{case}]" not in there
    ] == []


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
