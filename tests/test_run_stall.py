"""`gpudoctor run` when the job stands still, and when it only says nothing: real torchruns over gloo."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from gpudoctor.active import ChildReply
from gpudoctor.check import Fix
from gpudoctor.hang.report import HangCause, HangReport, JobReport, RankRow
from gpudoctor.run.stall import StallTask, StallTold, StallWatch
from gpudoctor.run.stalled import told
from tests.test_run import PATIENCE, runs, until, words
from tests.test_run_end import ranks_of, torchrun

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux"),
    pytest.mark.timeout(600),  # waits for most of a minute
]
HANGS = Path(__file__).parent / "lab" / "hangs"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


BAR = """
import runpy, threading, time
def draw():
    while True:
        print("\\r 50%", end="", flush=True)
        time.sleep(0.3)
threading.Thread(target=draw, daemon=True).start()
runpy.run_path({script!r}, run_name="__main__")
"""


def test_a_job_that_hangs_is_named_once_and_ended_where_that_was_asked_for(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Though it draws its progress bar all the time: it has begun collectives, and begins none any more."""
    script = tmp_path / "train.py"
    script.write_text(BAR.format(script=str(HANGS / "sleeps.py")))
    done = subprocess.run(
        words(*torchrun(script), options=["--stall", "5", "--on-stall", "kill"]),
        env=environment,
        capture_output=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    said = done.stderr.decode()
    assert done.returncode in (1, -15), said
    assert said.count("and stands still\n") == 1 and said.count("rank 0 sleeps at sleeps.py:12") >= 1, said
    assert "gpudoctor: it stood still shortly before its end" in said
    assert not ranks_of(script)
    assert list(runs(environment)[-1].glob("hang-*-evidence.json"))


def test_a_long_checkpoint_is_looked_at_and_is_no_stall(environment: dict[str, str]) -> None:
    script = HANGS / "slow_checkpoint.py"
    process = subprocess.Popen(
        words(*torchrun(script), options=["--stall", "4", "--on-stall", "kill"]),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until(lambda: runs(environment) and list(runs(environment)[-1].glob("hang-2.json")), "it has looked twice")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert "it got SIGTERM" in said and "and stands still" not in said and "it stood still shortly" not in said, said


def test_only_a_job_that_hangs_is_told_of() -> None:
    cause = HangCause(cause="straggler", confidence=0.85, summary="rank 1 is slow", fix=Fix("Wait."))
    task = StallTask(pid=1, folder="/reports/1", name="hang-1")
    for state in ("slow", "running", "starting", "ended"):
        job = JobReport(id="a", world_size=2, state=state, causes=(cause,))
        words_of_it = told(HangReport(jobs=(job,)), task)
        assert not words_of_it.hung and words_of_it.lines == (("rank 1 is slow",) if state == "slow" else ())
    tries = structs.replace(cause, confidence=0.65, ranks=(1,))
    row = RankRow(rank=1, state="sleeps in user code")
    job = JobReport(id="a", world_size=2, state="slow", causes=(tries,), ranks=(row,))
    assert told(HangReport(jobs=(job,)), task).is_idle
    lost = HangCause(cause="node-lost", confidence=0.95, summary="n2 is gone", ranks=(1,), fix=Fix("Leave it out."))
    rows = (RankRow(rank=0, host="n1", state="waits"), RankRow(rank=1, host="n2", state="missing"))
    job = JobReport(id="a", world_size=2, state="hung", causes=(lost,), ranks=rows)
    hinted = told(HangReport(jobs=(job,)), structs.replace(task, on_stall="restart-hint"))
    assert "start it again: elsewhere, without n2 (SLURM: --exclude=n2)" in hinted.lines
    found = told(HangReport(jobs=(JobReport(id="a", world_size=2, state="hung", undecided="nothing was read"),)), task)
    assert found.hung and found.lines[0] == "not decided: nothing was read"
    assert "--from /reports/1/hang-1-evidence.json" in found.lines[-1]


def test_what_holds_up_a_job_that_may_get_on_is_said_once() -> None:
    """At the third look in one silence: an expression that backtracks without end looks like a long computation."""
    said: list[str] = []
    watch = StallWatch(os.getpid(), None, (), 8.0, "report", said.extend, collectives=lambda: (5, 5))
    held = msgspec.json.encode(StallTold(lines=("rank 2 computes at clean.py:13",)))
    reply = ChildReply("hang", held, "", 0, False, False, 1.0, 77)
    watch.look()
    for looks in range(1, 6):
        watch._asked_at = watch._amount()
        watch._heard(reply)
        assert [line for line in said if line.startswith("rank 2")] == ["rank 2 computes at clean.py:13"] * (looks > 2)
    assert "may get on" in said[0] and not watch.stood.hung
    sleeps = msgspec.json.encode(StallTold(lines=("rank 0 tries again and again at get.py:20",), is_idle=True))
    other = StallWatch(os.getpid(), None, (), 8.0, "report", said.extend, collectives=lambda: (5, 5))
    other.look()
    for _ in range(2):
        other._asked_at = other._amount()
        other._heard(reply._replace(output=sleeps))
    assert said.count("rank 0 tries again and again at get.py:20") == 1
    watch._asked_at = watch._amount()
    watch._heard(reply._replace(output=msgspec.json.encode(StallTold(hung=True, cause="lock-held", lines=("why",)))))
    assert "stands still" in said[-2]
