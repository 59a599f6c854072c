"""What a run writes down of what its job uses: bounded, and enough to tell when something was said."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gpudoctor.run import use
from tests.pages import Page
from tests.test_run import PATIENCE, runs, words

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")


def test_lines_are_bounded_and_keep_the_whole_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "MOST_LINES", 50)
    lines = use.BoundedLines(tmp_path / use.NAME)
    seconds = 0.0
    while seconds < 24 * 3600:
        lines.write({"t": seconds})
        seconds += lines.pause
        assert len((tmp_path / use.NAME).read_bytes().splitlines()) <= 50
    kept = [json.loads(line)["t"] for line in (tmp_path / use.NAME).read_bytes().splitlines()]
    assert kept[0] == 0 and kept[-1] == seconds - lines.pause and len(kept) > 20
    assert max(later - one for one, later in pairwise(kept)) <= 2 * lines.pause
    assert (tmp_path / use.NAME).stat().st_mode & 0o777 == 0o600


def test_what_was_said_is_counted_when_the_older_part_is_left_out(tmp_path: Path) -> None:
    said = use.SaidSoFar(tmp_path, ())
    (tmp_path / "output.log").write_bytes(b"x" * 100)
    assert said.bytes() == 100
    (tmp_path / "output.tail-1").write_bytes(b"x" * 30)
    assert said.bytes() == 130
    (tmp_path / "output.tail-1").write_bytes(b"x" * 10)  # begun anew
    assert said.bytes() == 140


def test_a_run_writes_what_its_processes_use(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    script = "echo one; python3 -c 'x = b\"x\" * 80_000_000; import time; time.sleep(6)'; echo two"
    command = words("sh", "-c", script, options=["--preflight", "none"])
    done = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=False)
    assert done.stdout == b"one\ntwo\n"
    head, *lines = [json.loads(line) for line in (runs(environment)[-1] / use.NAME).read_bytes().splitlines()]
    assert head["began"] > 1e9
    assert lines and all(line["said"] == 4 for line in lines), "the second word came at the end"
    assert max(line["memory"] for line in lines) > 80_000_000
    assert max(line["processes"] for line in lines) >= 2
    own = [sys.executable, "-m", "gpudoctor", "report", "--html", str(tmp_path / "run.html")]
    told = subprocess.run(own, env=environment, capture_output=True, timeout=PATIENCE, check=False, text=True)
    assert told.returncode == 0, told.stderr
    assert "The run ended well" in told.stdout and "Memory of its processes" in told.stdout
    assert not Page((tmp_path / "run.html").read_bytes()).wrong
