"""What counts as a sign that a job gets on, of what it says."""

from pathlib import Path

import pytest

from gpudoctor.run.news import MOST_BYTES, News


@pytest.mark.parametrize(
    ("first", "more", "is_new"),
    [
        ("step 11 loss 0.96\n", "step 12 loss 0.95\n", True),
        ("\r 10%|#   | 1/10", "\r 20%|##  | 2/10", True),
        ("alive\n", "alive\nalive\n", False),
        ("2026-03-02 04:05:06,120 still waiting\n", "2026-03-02 04:05:16,121 still waiting\n", False),
        (
            "\x1b[36m(w pid=1)\x1b[0m no state\n",
            "(w pid=1) no state\x1b[32m [repeated 18x across cluster]\x1b[0m\n",
            False,
        ),
        ("alive\n", "\n\n", False),
        ("alive\n", "x" * (MOST_BYTES + 1), True),
    ],
)
def test_a_line_that_comes_again_is_no_sign_of_life(tmp_path: Path, first: str, more: str, is_new: bool) -> None:
    file = tmp_path / "output.log"
    news = News([file, tmp_path / "output.tail-1"])
    assert news.count() == 0  # nothing is there yet
    file.write_text(first)
    before = news.count()
    with file.open("a") as output:
        output.write(more)
    assert before == 1 and (news.count() > before) is is_new


def test_a_file_that_begins_anew_is_read_from_its_start(tmp_path: Path) -> None:
    file = tmp_path / "output.tail-1"
    news = News([file])
    file.write_text("step 11\nstep 12\n")
    assert news.count() == 2
    file.write_text("step 13\n")
    assert news.count() == 3
