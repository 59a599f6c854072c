"""What a rank says, kept beside by the rank itself: bounded, and never in a file that is the program's."""

import os
import time
from pathlib import Path

import pytest

from gpudoctor.knowledge.rank_variables import BY_LAUNCHER
from gpudoctor.run import rank_log

LINE = b"x" * 1023 + b"\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rank_log.RankLog:
    monkeypatch.setattr(rank_log, "SURE_SECONDS", 0.0)
    return rank_log.RankLog(str(tmp_path), "rank-0")


def test_the_first_and_the_last_bytes_are_kept(
    log: rank_log.RankLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_log, "HEAD_BYTES", 4096)
    monkeypatch.setattr(rank_log, "TAIL_BYTES", 4096)
    for number in range(50):
        log.write(b"%d " % number + LINE)
    kept = b"".join(place.read_bytes() for place in sorted(tmp_path.iterdir()))
    assert b"0 x" in kept
    assert b"49 x" in kept
    assert b"25 x" not in kept
    os.close(log.file)


def test_a_number_that_is_another_file_by_now_is_not_written_to(log: rank_log.RankLog, tmp_path: Path) -> None:
    other = os.open(tmp_path / "weights", os.O_CREAT | os.O_WRONLY)
    os.dup2(other, log.file)
    number = log.file
    log.write(LINE)
    assert log.file == -1
    assert not (tmp_path / "weights").stat().st_size
    os.close(number)
    os.close(other)


def test_a_closed_number_ends_the_copy(log: rank_log.RankLog) -> None:
    os.close(log.file)
    log.write(LINE)
    log.write(LINE)
    assert log.file == -1


def test_its_descriptor_is_out_of_the_way_and_looked_at_now_and_then(tmp_path: Path) -> None:
    log = rank_log.RankLog(str(tmp_path), "rank-1")
    assert log.file >= min(rank_log.HIGH)
    for _ in range(3):
        log.write(LINE)
    assert 0 < log.sure_until - time.monotonic() <= rank_log.SURE_SECONDS
    assert (tmp_path / "rank-1.log").read_bytes() == 3 * LINE
    os.close(log.file)


def test_what_comes_in_items_of_several_bytes_is_copied_whole(tmp_path: Path) -> None:
    log = rank_log.RankLog(str(tmp_path), "rank-2")
    reading, writing = os.pipe()
    stream = rank_log.CopiedStream(writing, log, "<stdout>")
    four = memoryview(b"abcdefgh").cast("I")
    assert stream.write(four) == 8
    assert os.read(reading, 100) == b"abcdefgh" == (tmp_path / "rank-2.log").read_bytes()
    for number in (reading, writing, log.file):
        os.close(number)


def test_what_may_import_nothing_of_ours_knows_the_ranks_of_all_launchers() -> None:
    ranks = [names.rank for names in BY_LAUNCHER]
    assert [rank_log.name_of({rank: "3", "SLURM_STEP_ID": "0"}) for rank in ranks] == ["rank-3"] * len(ranks)
    site = (Path(rank_log.__file__).parent / "site" / "sitecustomize.py").read_text()
    assert f"\nRANKS = {(*ranks[:-1],)!r}\n".replace("'", '"') in site and "SLURM_STEP_ID" in site
