"""`gpudoctor run` arms ranks whose scripts know nothing of it."""

import os
import signal
import subprocess
import sys
import tempfile
from ast import literal_eval
from pathlib import Path

import pytest

from gpudoctor.read.job import announced, armed
from gpudoctor.run import arming
from tests.test_run import PATIENCE, runs, started, until, words
from tests.test_run_end import ranks_of, torchrun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "TORCH_"))}
    return {**kept, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


def said(environment: dict[str, str], *command: str, options: tuple[str, ...] = ("-q",)) -> str:
    done = subprocess.run(
        words(*command, options=options), env=environment, capture_output=True, timeout=PATIENCE, check=True, text=True
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_only_these_variables_differ_and_none_with_no_arm(environment: dict[str, str]) -> None:
    code = "import os; print(sorted(os.environ.items()))"
    plain = dict(literal_eval(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)))
    assert dict(literal_eval(said(environment, sys.executable, "-c", code, options=("-q", "--no-arm")))) == plain
    ours = dict(literal_eval(said(environment, sys.executable, "-c", code)))
    assert {name for name in ours if plain.get(name) != ours[name]} == {
        *("PYTHONPATH", arming.STEM, arming.LOGS),
        *arming.RECORDER,
    }
    assert ours.keys() >= plain.keys()
    own = {"PYTHONPATH": "/a:/b", "TORCH_FR_BUFFER_SIZE": "5", arming.STEM: "/mine/", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
    made = arming.armed(own, Path("/nowhere"))
    assert made == {**own, "PYTHONPATH": f"{arming.SITE}:/a:/b", arming.LOGS: "/nowhere"}


def test_a_sitecustomize_that_is_there_runs_and_a_broken_one_is_told_of(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.mine = __file__, __name__\n")
    mine = {**environment, "PYTHONPATH": str(tmp_path)}
    code = "import sitecustomize as s, sys; print(sys.mine, s.__file__, [p for p in sys.path if 'gpudoctor/run' in p])"
    plain = subprocess.check_output([sys.executable, "-c", code], env=mine, text=True)
    assert said(mine, sys.executable, "-c", code) == plain
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    for command in ([sys.executable, "-c", "pass"], words(sys.executable, "-c", "pass", options=["-q"])):
        done = subprocess.run(command, env=mine, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "ValueError: mine" in done.stderr and done.returncode == 0


PYTHON_2 = next(Path("~/.pyenv/versions").expanduser().glob("2.7.*/bin/python2.7"), None)


@pytest.mark.skipif(PYTHON_2 is None, reason="no Python 2 here")
def test_python_2_passes_it_silently(environment: dict[str, str], tmp_path: Path) -> None:
    command = [str(PYTHON_2), "-c", "import sys; print(getattr(sys, 'mine', 0))"]
    for number in range(2):
        mine = {**environment, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(words(*command, options=["-q"]), env=mine, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (f"{number}\n", "", 0)
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.mine = 1\n")


def test_what_a_rank_starts_knows_nothing_of_it(environment: dict[str, str]) -> None:
    inner = "import os, sys; print(os.environ.get('PYTHONPATH'), 'gpudoctor' in str(sys.meta_path))"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert said({**environment, "RANK": "0"}, sys.executable, "-c", code) == "None False\n"
    beside = {**environment, "RANK": "0", "PYTHONPATH": "/tmp/a"}
    assert said(beside, sys.executable, "-c", code) == "/tmp/a False\n"


TRAINS = """
import sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
print("ready" if dist.get_rank() == 0 else "", flush=True)
while True: time.sleep(0.1)
"""


def test_ranks_of_torchrun_are_armed_and_the_launcher_is_not(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    with started(f"exec {' '.join(torchrun(script))}", environment) as job:
        until(lambda: len(ranks_of(script)) >= 3, "launcher and ranks are there")
        found = {pid: armed.find(int(pid)) for pid in ranks_of(script)}
        ranks = {pid: how for pid, how in found.items() if how is not None}
        assert len(ranks) == 2 and str(job.command) not in ranks
        for pid, how in ranks.items():
            assert how.signal
            stacks = armed.stacks(int(pid), how, PATIENCE)
            assert stacks.by == "faulthandler" and stacks.threads
    assert (runs(environment)[-1] / arming.DUMPS).is_dir()


def test_ranks_that_a_signal_ends_leave_nothing_below_tmp(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    with tempfile.TemporaryDirectory() as folder:
        with started(f"exec {' '.join(torchrun(script))}", {**environment, "TMPDIR": folder}) as job:
            until(lambda: len(list(Path(folder).glob("gpudoctor-*/worker.sock"))) == 2, "both ranks are armed")
            ranks = {int(pid) for pid in ranks_of(script)} - {job.process.pid, job.command}
            for pid, number in zip(sorted(ranks), (signal.SIGTERM, signal.SIGKILL), strict=True):
                os.kill(pid, number)
            job.ended()
        assert not list(Path(folder).glob("gpudoctor-*"))


@pytest.mark.thorough
def test_what_a_rank_has_forked_holds_its_announcement_and_is_no_other() -> None:
    own, other = os.memfd_create("gpudoctor-armed"), os.memfd_create("gpudoctor-armed")
    asked, told = os.pipe()
    child = os.fork()
    if not child:
        os.read(asked, 1)
        os._exit(0)
    try:
        assert announced.file_of(child, own) == announced.file_of(os.getpid(), own) > 0
        assert announced.file_of(child, own) != announced.file_of(child, other)
    finally:
        os.write(told, b"x")
        os.waitpid(child, 0)
        for descriptor in (own, other, asked, told):
            os.close(descriptor)
    assert announced.file_of(child, own) == 0
