"""How crowded a machine is, from what the kernel counts of our own threads."""

from pathlib import Path

import pytest

from gpudoctor import active, crowded


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


def test_a_child_gets_the_time_again_for_which_it_only_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    for waited, most in ((0.0, 0.3), (0.4, 0.6), (99.0, 0.6)):
        monkeypatch.setattr(crowded, "kept_waiting", lambda tasks, waited=waited: waited)
        child = active.start("sleeps", ["sleep", "30"], timeout=0.3)
        reply = active.gather([child])["sleeps"]
        assert reply.timed_out and most <= reply.seconds < most + 0.25 * (1 + crowded.slowdown()), (waited, reply)


def test_how_long_threads_waited(tmp_path: Path) -> None:
    for name, text in {"1": "5 2500000000 1", "2": "9000000000 1000000000 1"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(text)
    assert crowded.kept_waiting(tmp_path) == 2.5
    assert crowded.kept_waiting(tmp_path / "none") == 0.0
