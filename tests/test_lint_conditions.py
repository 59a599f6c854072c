"""Conditions on options: what holds, what is not decided, and that every row of the tables can be judged."""

import pytest

from gpudoctor.knowledge import refused_calls, refused_engines, refused_options, refused_training
from gpudoctor.lint.conditions import holds, names_of, value_of_word
from gpudoctor.lint.python_values import UNDECIDED

ROWS = [*refused_options.REFUSED, *refused_training.REFUSED, *refused_calls.REFUSED, *refused_engines.REFUSED]
GIVEN: dict[str, object] = {"layers": 30, "stages": 4, "kind": "fsdp auto", "open": UNDECIDED, "off": False}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("layers % stages != 0", True),
        ("layers % stages == 2 and not off", True),
        ("'fsdp' in kind and layers // stages < 8", True),
        ("kind in ('fsdp auto', 'x')", True),
        ("open", False),
        ("not open", False),
        ("open or layers > 1", True),
        ("open and layers > 1", False),
        ("layers % open != 0", False),
        ("missing > 1", False),
        ("not missing", True),
        ("layers % off == 0", False),
        ("stages != -1 and told(stages)", True),
        ("words(kind) <= ('fsdp', 'auto', 'offload')", True),
        ("not words(kind) <= ('fsdp',)", True),
        ("not words(open) <= ('fsdp',)", False),
        ("not words(layers) <= ('fsdp',)", False),
    ],
)
def test_conditions_hold_where_they_are_decided(condition: str, expected: bool) -> None:
    assert holds(condition, lambda name: GIVEN.get(name), lambda name: name in GIVEN) is expected


@pytest.mark.parametrize(
    ("word", "value"),
    [(None, True), ("8", 8), ("2e-5", 2e-5), ("True", True), ("no", False), ("null", None), ("'adam'", "adam")],
)
def test_words_are_read_as_programs_read_them(word: str | None, value: object) -> None:
    assert value_of_word(word) == value


@pytest.mark.parametrize("value", [UNDECIDED, None, True, False, 3, 0, 0.5, "auto", ("a", "b")])
def test_every_row_can_be_judged_by_whatever_is_told(value: object) -> None:
    for row in ROWS:
        assert holds(row.when, lambda name: value, lambda name: True) in (True, False)


def test_what_nobody_knows_accuses_nobody() -> None:
    told = [row for row in ROWS if not row.when.startswith("told(") or " " in row.when]
    assert [row.when for row in told if holds(row.when, lambda name: UNDECIDED, lambda name: True)] == []


def test_every_row_says_something_and_what_to_do() -> None:
    assert [row.when for row in ROWS if not names_of(row.when) or len(row.says) < 10 or row.fix[-1:] != "."] == []
