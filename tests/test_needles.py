"""The literal texts of a pattern: every match holds one of them."""

import re

import pytest
from hypothesis import assume, given, strategies as st

from gpudoctor.needles import needles


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"Watchdog caught (?P<what>\w+) operation", ("Watchdog caught ",)),
        (r"(?:srun|slurmstepd)\b", ("slurmstepd", "srun")),
        (r"got (?:an? )?answers?\.", ("answer",)),
        (r"(?i:out of memory) at \d{1,3}: killing", (": killing",)),
        (r"(?!never this one)xyzzy", ("xyzzy",)),
        (r"[(]? \(plugh\){0,3}", (" (plugh",)),
        (r"long enough|\d+", ()),
        (r"\w+", ()),
    ],
)
def test_of_a_pattern(pattern: str, texts: tuple[str, ...]) -> None:
    assert sorted(needles(pattern)) == sorted(texts)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of sets that re may read otherwise one day
@given(st.text(alphabet="ghi(|)[]?*+\\{2,}.^", max_size=20))
def test_any_pattern(text: str) -> None:
    try:
        pattern = re.compile(text)
    except re.error:
        assume(False)
    for line in ("ghi", "g" * 9 + "hi", "((hi))"):
        assert not needles(text) or not pattern.search(line) or any(needle in line for needle in needles(text))
