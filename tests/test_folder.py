"""`gpudoctor report`: a run put together from what it left, and any folder of logs, captures and answers."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.causes import CAUSES
from gpudoctor.envelope import encode
from gpudoctor.errors import BadInput, CannotTell
from gpudoctor.folder.read import answer_of
from gpudoctor.folder.timeline import use_of
from gpudoctor.render.html.folder import folder_page
from gpudoctor.snapshot import to_json
from gpudoctor.snapshot.evidence import to_json as job_to_json
from tests import nccl_examples, train_examples
from tests.hang_examples import EXAMPLES
from tests.kept_runs import HOST, failed_run
from tests.machines.hand_built import broken_8xh100
from tests.pages import Page
from tests.slow_examples import EXAMPLES as SLOW
from tests.test_html import HOSTILE, run, surveyed


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return failed_run(tmp_path_factory.mktemp("runs") / "20260921-000000-4711")


def test_a_run_is_put_together(failed: Path) -> None:
    found, _ = answer_of(str(failed))
    assert found.exit_status == 1
    assert next(found.stated()).id == "gpu-out-of-memory"
    at = {each.kind: each for each in found.moments}
    assert {*at} == {"start", "signal", "slow", "silence", "stall", "log", "end"}
    assert at["slow"].seconds == pytest.approx(1440, abs=60) and at["slow"].until == pytest.approx(1800, abs=60)
    assert at["silence"].seconds == pytest.approx(2520, abs=20) and at["silence"].until == pytest.approx(2880, abs=20)
    assert at["stall"].seconds == 2700 and at["signal"].seconds == 1080
    first = next(each for each in found.moments if each.kind == "log" and "OutOfMemory" in each.text)
    assert first.seconds == pytest.approx(3598, abs=10), "by how much had been said: the line has no time stamp"
    assert [each.rank for each in found.steps] == [0, 1, 2, 3]
    assert found.steps[0].points[-1][1] - found.steps[3].points[-1][1] == 3
    assert {each.name for each in found.use} == {"processors", "memory", *(f"GPU {number}" for number in range(8))}
    assert [*found.hangs] == ["hang-1-evidence.json"]
    assert HOST in found.hosts


def test_the_cause_is_told_as_it_was_seen_where_the_log_knows_less(tmp_path: Path) -> None:
    """The log alone would advise to look for the OOM killer, which the run has seen to have done nothing."""
    place = tmp_path / "20260921-000000-4712"
    place.mkdir()
    ended = [{"pid": 9, "rank": 1, "status": -9, "seconds": 7.4}, {"rank": 0, "status": 77, "seconds": "x"}, 3]
    run_told = {"command": ["torchrun", "t.py"], "started": 1.79e9, "seconds": 9.0, "status": 1, "ended": ended}
    cause = "cause: rank 1 (process 9) was killed by SIGKILL; no process of its cgroup was (0.85 of 1)  [rank-died]"
    told = {"lines": [cause, "fix: Look."], "cause": "rank-died", "confidence": 0.85, "variant": "killed"}
    (place / "run.json").write_text(json.dumps(run_told))
    (place / "found.json").write_text(json.dumps(told))
    line = "E0921 00:00:09.000000 7 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    (place / "output.log").write_text(f"rank 1 step 1 loss 0.5\n{line}local_rank: 1 (pid: 9) of binary: python\n")
    found, _ = answer_of(str(place))
    first = next(found.stated())
    assert first.summary == "rank 1 (process 9) was killed by SIGKILL; no process of its cgroup was"
    assert first.fix is not None and first.fix.text == CAUSES["rank-died"].remedy("killed").text
    assert first.evidence[0].source.endswith("output.log:2")
    ends = [(each.text, each.seconds) for each in found.moments if each.kind == "end"]
    assert ends == [("rank 1 ended by SIGKILL", 7.4), ("it ended with exit status 1", 9.0), (ENDED_77, None)]


ENDED_77 = "rank 0 ended with exit status 77"


def test_what_is_shown_is_read_back_from_the_page(failed: Path, tmp_path: Path) -> None:
    page, again, answer = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "a.json"
    first = run("report", failed, "--html", page)
    assert first.exit_code == 1
    for words in ("ran out of GPU memory", "stands still", "steps a second", "GPU 3: 36%", "SIGUSR1"):
        assert words in first.stdout
    found = Page(page.read_bytes())
    assert not found.wrong
    assert "Who came to which collective" in found.shown and "Stack of rank 0" in found.shown
    assert "button" in found.elements
    answer.write_text(run("report", failed, "--json").stdout)
    second, third = run("report", "--from", page, "--html", again), run("report", "--from", answer)
    assert second.stdout == third.stdout and second.exit_code == 1
    assert "button" not in Page(again.read_bytes()).elements, "lines of a file are whoever's wrote it"
    assert run("report", "--from", again).stdout == second.stdout


def test_no_name_is_left_in_page_and_data(failed: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert b"mara" in (failed / "run.json").read_bytes()
    run("report", failed, "--html", page, "--redact")
    raw = page.read_bytes().lower()
    assert not [name for name in (HOST, "mara", "10.0.0.1", "n0000", "slurmstepd.x") if name.encode() in raw]
    assert b"node-1" in raw and b"gpu-out-of-memory" in raw
    assert run("report", "--from", page).exit_code == 1


def test_who_all_others_waited_for_stands_in_the_course_of_the_run(tmp_path: Path) -> None:
    """Once, though several looks say it."""
    told = {"command": ["torchrun", "t.py"], "started": 1.79e9, "seconds": 900.0, "status": 0}
    (tmp_path / "run.json").write_text(json.dumps(told))
    for number, after in ((2, 60.0), (10, 300.0), (1, 30.0)):
        pace = SLOW["slow-input"]() if number != 1 else SLOW["slow-even"]()
        (tmp_path / f"slow-{number}.json").write_bytes(encode(pace))
        os.utime(tmp_path / f"slow-{number}.json", (1.79e9 + after, 1.79e9 + after))
    found, _ = answer_of(str(tmp_path))
    (slow,) = (moment for moment in found.moments if moment.kind == "slow")
    assert (slow.seconds, slow.source) == (60.0, "slow-2.json") and slow.text.startswith("rank 2 is late")
    assert "gpu-01" in found.hosts and "rank 2 is late" in folder_page(found).decode()


def test_a_folder_of_anything_is_put_together(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_bytes(to_json(broken_8xh100()))
    (tmp_path / "job.json").write_bytes(job_to_json(EXAMPLES["hang-rank0-only"]()))
    (tmp_path / "slow.json").write_bytes(encode(nccl_examples.slow_node()))
    (tmp_path / "train.json").write_bytes(encode(train_examples.one_gpu_differs()))
    (tmp_path / "nodes.json").write_bytes(encode(surveyed(("n1", "n2", "n3"))))
    (tmp_path / "notes.json").write_text('{"a": 1}')
    (tmp_path / "broken.json").write_text('{"a": ')
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank0.log").write_text(
        "2026-01-01 00:00:00,000 RuntimeError: CUDA error: out of memory\n" * 2
    )
    found, captures = answer_of(str(tmp_path))
    assert ([*found.machines], [*found.hangs], [*found.tests], [*found.trainings], [*found.surveys]) == (
        ["machine.json"], ["job.json"], ["slow.json"], ["train.json"], ["nodes.json"]
    )  # fmt: skip
    assert found.explanation is not None and found.explanation.files == ("logs/rank0.log",)
    assert {each.name for each in found.files if each.kind == "not read"} == {"notes.json", "broken.json"}
    page = Page(folder_page(found, captures))
    assert not page.wrong
    for words in ("Where they sit", "Pairs of nodes", "Ways of training", "Nodes and checks", "Where each rank stands"):
        assert words in page.shown or words in folder_page(found, captures).decode()
    assert run("report", tmp_path).exit_code == 1


def test_a_run_of_which_the_end_is_not_known_is_none_that_went_well(failed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(failed, folder)
    record = json.loads((folder / "run.json").read_text()) | {"status": None, "seconds": None}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "found.json").unlink()
    assert answer_of(str(folder))[0].exit_status == 1, "its logs and its stall tell a fault"
    for name in ("output.log", "hang-1-evidence.json"):
        (folder / name).unlink()
    done = run("report", folder)
    assert done.exit_code == 3 and "has not ended" in done.stdout


def test_nothing_is_said_of_nothing(tmp_path: Path) -> None:
    assert isinstance(run("report", tmp_path / "none").exception, BadInput)
    assert isinstance(run("report", tmp_path).exception, CannotTell)


def test_no_word_of_a_run_gets_out_of_its_place(failed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(failed, folder)
    record = json.loads((folder / "run.json").read_text())
    record |= {"host": HOSTILE, "command": ["torchrun", HOSTILE * 50], "folder": HOSTILE, "lost": [HOSTILE]}
    (folder / "run.json").write_text(json.dumps(record))
    found = json.loads((folder / "found.json").read_text())
    (folder / "found.json").write_text(json.dumps(found | {"lines": [f"cause: {HOSTILE}"], "cause": "rank-died"}))
    with (folder / "output.log").open("a") as log:
        log.write(f"[rank0]: RuntimeError: {HOSTILE}\n")
    page = Page(folder_page(*answer_of(str(folder))))
    assert not page.wrong
    assert page.elements.count("script") == 2
    assert "alert('pwned')" in page.shown
    assert not {"\x1b", "\u202e", "\u2028"} & {*page.shown}


@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from((b'{"t": 1, "gpus": [[0, 1, 2]]}', b'{"t": "x"}',
                b'{"t": 2, "said": 3, "gpus": [[0, null, 2, "x"]]}', b'{"began": []}', b"[" * 100)))))  # fmt: skip
def test_whatever_was_written_of_use_is_read(lines: list[bytes]) -> None:
    for each in use_of(b"\n".join(lines))[2]:
        assert all(isinstance(value, float) for point in each.points for value in point)
