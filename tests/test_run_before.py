"""What `gpudoctor run` says before the start."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.run.before import _linted, _of_lint
from gpudoctor.run.preflight import BeforeTold, Looking
from gpudoctor.run.record import RunWish
from gpudoctor.run.run import AttendedRun
from gpudoctor.run.stall import OnStall
from tests.test_run import OURS, PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONWARNINGS": "ignore"}


def ran(environment: dict[str, str], folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "gpudoctor", "run", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=PATIENCE, check=False)


def test_an_error_is_shown_and_the_job_starts_or_does_not(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntorchrun --nnodes=2 --nproc-per-node=8 train.py\n")
    (tmp_path / "torchrun").write_text("#!/bin/sh\necho started\n")
    (tmp_path / "torchrun").chmod(0o755)
    mine = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}"}
    for command in (("bash", "job.sh"), ("torchrun", "--nnodes=2", "--nproc-per-node=8", "train.py")):
        done = ran(mine, tmp_path, "--", *command)
        assert (done.returncode, done.stdout) == (0, b"started\n"), done
        assert re.search(rb"(?m)^gpudoctor: before the start: error .*2 nodes and no --master-addr", done.stderr), done
        done = ran(mine, tmp_path, "--stop-on-error", "--", *command)
        assert (done.returncode, done.stdout) == (125, b"") and b"not started" in done.stderr
        done = ran(mine, tmp_path, "--preflight", "none", "--stop-on-error", "--", *command)
        assert done.returncode == 0 and b"before the start" not in done.stderr


@pytest.mark.thorough
def test_a_slow_look_keeps_no_error_back_that_was_found_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'import time; print(\'{"errors": 1, "lines": ["error"]}\', flush=True); time.sleep(60)'
    monkeypatch.setattr("gpudoctor.active.own_module", lambda *_: [sys.executable, "-c", text])
    looking = Looking(("torchrun", "train.py"), "short", BeforeTold)
    told = iter(looking.told, BeforeTold(errors=1, lines=("error",)))
    until(lambda: next(told, None) is None, "its first error")
    looking.end()
    assert looking.told() == BeforeTold()


def test_the_program_is_read_too(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch.distributed as dist\n\ndist.init_process_group()\nif dist.get_rank() == 0:\n    dist.barrier()\n"
    )
    (tmp_path / "torchrun").write_text("#!/bin/sh\necho started\n")
    (tmp_path / "torchrun").chmod(0o755)
    mine = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}"}
    done = ran(mine, tmp_path, "--", "torchrun", "--standalone", "--nproc-per-node=2", "train.py")
    assert (done.returncode, done.stdout) == (0, b"started\n"), done
    assert re.search(rb"(?m)^gpudoctor: before the start: error train.py line 5: dist.barrier\(\) ", done.stderr), done


def test_nothing_is_said_of_what_is_no_training(environment: dict[str, str], tmp_path: Path) -> None:
    for command in (("echo", "torchrun"), ("sh", "-c", "exit 0"), ("true", "\udcff", "")):
        done = ran(environment, tmp_path, "--", *command)
        assert done.returncode == 0 and done.stderr.count(b"gpudoctor: ") == 1 and not OURS.sub(b"", done.stderr), done


def test_asked_to_end_while_it_looks_it_starts_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("torchrun train.py\n")
    mark = tmp_path / "mark"
    command = [sys.executable, "-m", "gpudoctor", "run", "--", "sh", "-c", f"touch {mark}; sleep 60", "-", "job.sh"]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: children.read_text(), "it looks")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    time.sleep(0.2)
    assert not mark.exists()


def test_variables_that_are_set_by_hand_or_by_srun_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`RANK=$SLURM_PROCID ... gpudoctor run -- python train.py`: each of 64 tasks was told that RANK is not set."""
    program = tmp_path / "train.py"
    program.write_text("import torch.distributed as dist\ndist.init_process_group('gloo')\nprint(dist.get_rank())\n")
    hand = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    for name in hand:
        monkeypatch.delenv(name, raising=False)
    told = [*_of_lint(_linted(("python", str(program))))]
    assert any("[program-reads-rank E15]" in line for line in told)
    for name, value in hand.items():
        monkeypatch.setenv(name, value)
    told = [*_of_lint(_linted(("python", str(program))))]
    assert not any("E15" in line for line in told)


@pytest.mark.parametrize(
    ("step", "on_stall", "beside"),
    [
        ({"SLURM_STEP_ID": "0", "SLURM_LOCALID": "0", "RANK": "4"}, "report", False),
        ({"SLURM_STEP_ID": "0", "SLURM_LOCALID": "3", "RANK": "7"}, "report", True),
        ({"SLURM_STEP_ID": "0", "SLURM_LOCALID": "3", "RANK": "7"}, "kill", False),
        ({"SLURM_STEP_ID": "0", "SLURM_LOCALID": "3"}, "report", False),
        ({"RANK": "7"}, "report", False),
    ],
)
def test_of_the_doctors_of_one_node_s_tasks_the_first_looks(
    tmp_path: Path, step: dict[str, str], on_stall: OnStall, *, beside: bool
) -> None:
    """srun starts one for each task; unless each is to act, one look at all ranks is enough, and one answer."""
    wish = RunWish(command=("python", "train.py"), report=tmp_path, on_stall=on_stall)
    assert AttendedRun(wish, step)._with_others(None).has_head is beside
