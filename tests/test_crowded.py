"""How crowded a machine is, from what the kernel counts of our own threads."""

from pathlib import Path

import pytest

from gpudoctor import crowded


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        ({}, 1.0),
        ({"1": "1000000000 0 12"}, 1.0),
        ({"1": "1000000000 500000000 12"}, 1.5),
        ({"1": "1000000000 0 12", "2": "1000000000 4000000000 3"}, 3.0),
        ({"1": "1000000 900000000000 12"}, crowded.MOST),
        ({"1": "0 0 0"}, 1.0),
        ({"1": ""}, 1.0),
        ({"1": "no number"}, 1.0),
    ],
)
def test_a_second_of_work(threads: dict[str, str], expected: float, tmp_path: Path) -> None:
    for name, text in threads.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(text)
    assert crowded.slowdown(tmp_path) == pytest.approx(expected)


def test_a_kernel_that_does_not_count(tmp_path: Path) -> None:
    assert crowded.slowdown(tmp_path / "none") == 1.0
    assert 1.0 <= crowded.slowdown() <= crowded.MOST
