"""docs/measured/nccl-messages.md holds every pattern that waits for NCCL or torch, as the table has it now."""

import re

import pytest

from tests.spoken import VALUE
from tests.spoken_releases import PAGE, asked, forms, parts_of, says, wordings

NEWER = 25
ROW = re.compile(r"^\| (?P<id>[\w. -]+?) \| (?P<digest>[0-9a-f]{8}) \|", re.M)


def test_every_pattern_is_on_the_page() -> None:
    """Else: python -m tests.spoken_releases fetch, and --write. A few may be newer than the page."""
    listed = {match["digest"] for match in ROW.finditer(PAGE.read_text())}
    patterns = asked()
    lacking = [pattern.id for pattern in patterns if pattern.digest not in listed]
    assert len(lacking) <= len(patterns) / NEWER, lacking


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("Call to (?:recv|send) from", {"Call to recv from", "Call to send from"}),
        (r"rank (?P<rank>\d+)(?: of \d+)?", {f"rank {VALUE}", f"rank {VALUE} of {VALUE}"}),
        ("[Cc]onnect(?! to lo)", {"Connect", "connect"}),
    ],
)
def test_a_pattern_unfolds(pattern: str, texts: set[str]) -> None:
    assert {text for text, _ in wordings(pattern)} == texts


def test_what_a_format_leaves_open_is_no_text_of_its_own() -> None:
    library = b"Call to ibv_modify_qp failed with %d %s, on dev %s:%d\n"
    wording = "ibv_modify_qp failed with 110 Connection timed out, on dev"
    assert not says(parts_of(wording), library)
    assert any(says(parts_of(form), library) for form in forms(wording))


def test_words_of_two_lines_are_not_one() -> None:
    assert not says(parts_of(f"no device{VALUE}found"), b"no device here\nnothing found\n")
