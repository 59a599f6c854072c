"""Wheels that the lab wants and cannot have: the tests that need them skip, and the index is asked once."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.lab.nccl import wheels


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("GPUDOCTOR_LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("GPUDOCTOR_REQUIRE_LAB", "1")
    return []


def wanted(asked: list[str], error: Exception) -> str:
    """Why the test was skipped that wants it."""

    def fetch() -> None:
        asked.append("the index")
        raise error

    with pytest.raises(pytest.skip.Exception) as skipped:
        wheels.present(wheels.cache() / "nccl-9", fetch, "NCCL 9", "nccl")
    return str(skipped.value)


def test_an_index_that_does_not_answer_is_no_failure_and_is_asked_once(asked: list[str]) -> None:
    first = wanted(asked, subprocess.CalledProcessError(1, "pip"))
    assert "NCCL 9 cannot be downloaded" in first
    assert wanted(asked, OSError("another one")) == first and asked == ["the index"]


def test_a_download_that_takes_too_long_is_no_failure(asked: list[str]) -> None:
    assert "timed out" in wanted(asked, subprocess.TimeoutExpired("pip", 240))


def test_it_is_asked_again_later(asked: list[str]) -> None:
    wanted(asked, OSError("no network"))
    before = time.time() - wheels.ASKED_AGAIN_AFTER - 1
    os.utime(wheels.cache() / "nccl-9.failed", (before, before))
    assert "no disk" in wanted(asked, OSError("no disk")) and len(asked) == 2


def test_where_the_lab_is_not_required_nothing_is_asked(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUDOCTOR_REQUIRE_LAB")
    assert "python -m tests.lab.nccl fetch" in wanted(asked, OSError()) and asked == []
