"""`gpudoctor sbatch`: judged with the options of the command line, and handed to sbatch as it was given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint.submission import taken_apart
from tests.lab.slurm import slurm_cluster
from tests.lab.sshd import wait_until

pytestmark = pytest.mark.usefixtures("forks")
SCRIPT = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 bash -c "torchrun --nnodes=$SLURM_NNODES --nproc-per-node=$1 \\
  --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:29500 --rdzv-id=$SLURM_JOB_ID train.py"
"""
FAKE = '#!/bin/sh\nfor word in "$@"; do printf "[%s]" "$word"; done\ncat\nexit 7\n'


@pytest.fixture
def fake(tmp_path: Path) -> dict[str, str]:
    """An environment with an sbatch that says how it was called, ends with 7, and writes its standard input."""
    (tmp_path / "sbatch").write_text(FAKE)
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "job.sh").write_text(SCRIPT)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def submit(*words: str, environment: dict[str, str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpudoctor", "sbatch", *words]
    return subprocess.run(command, env=environment, cwd=folder, input=given, capture_output=True, text=True, timeout=60)


def test_an_error_keeps_it_from_the_queue_and_the_command_line_holds_over_the_header(
    fake: dict[str, str], tmp_path: Path
) -> None:
    refused = submit("job.sh", "4", environment=fake, folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "error job.sh line 3: srun starts 4 tasks a node" in refused.stderr.replace("\n", " ")
    assert "Not submitted" in refused.stderr
    words = ("--parsable", "-N3", "--ntasks-per-node", "1", "--site-own", "x y", "job.sh", "4", "--force", "a b")
    sent = submit(*words, environment=fake, folder=tmp_path)
    assert (sent.returncode, sent.stdout) == (7, "".join(f"[{word}]" for word in words)), sent.stderr
    assert "gpus-per-node" not in sent.stderr
    (tmp_path / "job.sh").write_text(SCRIPT.replace("=4\n", "=4\n#SBATCH --gpus-per-node=2\n"))
    by_variable = {**fake, "SBATCH_GPUS_PER_NODE": "4"}
    assert "gpus-per-node 4" in " ".join(submit(*words, environment=by_variable, folder=tmp_path).stderr.split())
    one = submit("--gpus-per-node=8", *words, environment=by_variable, folder=tmp_path)
    assert "gpus-per-node 8" in " ".join(one.stderr.split())
    told = " ".join(sent.stderr.split())
    assert "Asks for: nodes 3, ntasks-per-node 1" in told and "3 nodes x 4 processes = world size 12" in told


def test_force_submits_all_the_same_and_standard_input_is_handed_on(fake: dict[str, str], tmp_path: Path) -> None:
    sent = submit("--force", "--parsable", environment=fake, folder=tmp_path, given=SCRIPT)
    assert (sent.returncode, sent.stdout) == (7, f"[--parsable]{SCRIPT}")
    wrapped = submit("--wrap", "torchrun --nproc-per-nodes=2 t.py", environment=fake, folder=tmp_path)
    assert (wrapped.returncode, wrapped.stdout) == (1, "") and "unknown-option V03" in wrapped.stderr
    other = submit("--wrap=make data", environment=fake, folder=tmp_path)
    assert other.returncode == 7 and "no training that is understood" in " ".join(other.stderr.split())


def test_what_cannot_be_judged_is_one_line(fake: dict[str, str], tmp_path: Path) -> None:
    for words, says in ((("absent.sh",), "no such file"), (("--facts", "nodes=x", "job.sh"), "whole number")):
        done = submit(*words, environment=fake, folder=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1) and says in done.stderr
    without = submit("job.sh", environment={**fake, "PATH": "/nowhere"}, folder=tmp_path)
    assert without.returncode == 2 and "no sbatch on this machine" in without.stderr


def test_what_the_script_starts_is_judged_too(fake: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --nodes=1\nsrun bash worker.sh\n")
    (tmp_path / "worker.sh").write_text("torchrun --standalone --nproc-per-nodes=2 t.py\n")
    done = submit("job.sh", environment=fake, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and "error worker.sh line 1" in done.stderr


def test_words_are_taken_apart_as_sbatch_does() -> None:
    found = taken_apart(["-N", "2", "--exclusive", "--force", "-J", "a", "job.sh", "--facts", "x", "--force"])
    assert (found.own, found.script, found.arguments) == (("--force",), "job.sh", ("--facts", "x", "--force"))
    assert found.passed == ("-N", "2", "--exclusive", "-J", "a", "job.sh", "--facts", "x", "--force")


def test_a_real_slurm_runs_what_was_submitted(tmp_path: Path) -> None:
    good = SCRIPT.replace("torchrun", "echo $SLURM_NNODES nodes \\$SLURM_NTASKS tasks \\$1; : torchrun")
    (tmp_path / "job.sh").write_text(good)
    command = (sys.executable, "-m", "gpudoctor", "sbatch")
    with slurm_cluster(2) as cluster:
        out = tmp_path / "out"
        words = (
            f"--chdir={tmp_path}",
            f"--output={out}",
            "--ntasks-per-node=1",
            "--wait",
            str(tmp_path / "job.sh"),
            "4",
        )
        done = cluster.run(*command, "--parsable", *words)
        assert done.returncode == 0 and done.stdout.strip().isdigit(), done.stderr
        wait_until(lambda: out.exists() and out.read_text().count("2 nodes") == 2, 60)
        refused = cluster.run(*command, str(tmp_path / "absent.sh"))
        assert refused.returncode == 2
        wrong = cluster.run(*command, "--partition=absent", *words)  # sbatch itself says no
        assert wrong.returncode == 1 and "sbatch: error" in wrong.stderr
