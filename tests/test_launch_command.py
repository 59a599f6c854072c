"""`gpudoctor launch` as a command: its options, its output, its exit status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.launch.planned import split_program
from tests.lab.sshd import user_environment

pytestmark = pytest.mark.usefixtures("forks")


def launch(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", "launch", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=user_environment(),
        cwd=folder,
    )


def test_standard_output_is_what_is_pasted_and_nothing_else() -> None:
    done = launch("--nodes", "2", "--gpus-per-node", "2", "--", "train.py", "--lr", "0.1", "a b")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
    assert [line.endswith("train.py --lr 0.1 'a b'") for line in lines] == [True, True]
    assert "#@ node 0" in done.stdout
    assert "Not verified" in done.stderr
    assert "NODE1: a node that nobody has named" in done.stderr


def test_a_batch_script_can_be_sent_to_a_file() -> None:
    done = launch("--framework", "slurm", "--nodes", "2", "--gpus-per-node", "4")
    assert done.stdout.startswith("#!/bin/bash\n#SBATCH ")
    assert "#@" not in done.stdout
    assert "sbatch train.sbatch" in done.stderr


def test_json_holds_plan_and_text() -> None:
    answer = json.loads(launch("--json", "--nodes", "2", "--gpus-per-node", "2", "--", "x.py").stdout)
    assert answer["plan"]["world_size"] == 4
    assert answer["plan"]["program"] == ["x.py"]
    assert answer["verified"] is None
    assert [block["node"] for block in answer["emission"]["blocks"]] == [0, 1]


def test_files_are_written_once_and_never_over_others(tmp_path: Path) -> None:
    words = ("--framework", "lightning", "--nodes", "2", "--gpus-per-node", "2", "-o", "start")
    assert launch(*words, folder=tmp_path).returncode == 0
    written = {path.name: path.read_text() for path in (tmp_path / "start").iterdir()}
    assert sorted(written) == ["lines_for_the_script.py", "node-0.sh", "node-1.sh"]
    assert (tmp_path / "start" / "node-0.sh").stat().st_mode & 0o111
    again = launch(*words, folder=tmp_path)
    assert again.returncode == 2
    assert "is there already and is not overwritten" in again.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "start").iterdir()} == written


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--elastic", "3"), "MIN:MAX"),
        (("--elastic", "4:2"), "MIN not above MAX"),
        (("--hosts", "a", "--hostfile", "f"), "exclude each other"),
        (("--hosts", "a,b", "--nodes", "3"), "2 hosts"),
        (("--hosts", "a;rm"), "a host's name"),
        (("--nodes", "2", "--master-addr", "127.0.0.1"), "the node itself"),
        (("--framework", "mpirun", "--nodes", "2", "--gpus-per-node", "1"), "needs their names"),
        (("--framework", "lightning", "--elastic", "1:2", "--gpus-per-node", "1"), "fixed world"),
        (("--framework", "lightning", "--strategy", "fairscale", "--nodes", "2"), "fsdp"),
        (("--framework-version", "new"), "a version is like"),
        (("--", "torchrun", "train.py"), "name the script"),
        (("--", "--lr", "1"), "the script comes first"),
        (("--", "python3.999", "train.py"), "no such interpreter on PATH"),
        (("--", "bash", "run.sh"), "every rank starts python"),
        (("--", "./run.sh"), "every rank starts python"),
        (("--hosts", "127.0.0.9,n2", "--gpus-per-node", "1"), "is a loopback address"),
        (("--", "-m"), "which module"),
        (("--", "train.py", "a\nb"), "line break"),
        (("-o", "/etc/hostname"), "is a file"),
        (("--python", "/nowhere/python"), "no such file"),
    ],
)
def test_wrong_usage_gets_one_line_and_status_2(words: tuple[str, ...], why: str) -> None:
    done = launch(*words)
    assert done.returncode == 2, done.stdout
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_python_in_front_of_the_script_is_understood() -> None:
    done = launch("--nodes", "1", "--gpus-per-node", "2", "--", "python", "-u", "train.py")
    assert done.stdout.rstrip().endswith("--nproc-per-node=2 train.py")


def test_an_interpreter_named_by_its_version_is_the_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "python3.77"
    other.write_text("")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert split_program(["python3.77", "train.py"]) == (("train.py",), str(other))
    assert split_program(["python3", "train.py"]) == (("train.py",), "")


def test_a_script_that_is_not_here_is_told_and_none_that_nobody_named(tmp_path: Path) -> None:
    words = ("--nodes", "1", "--gpus-per-node", "1")
    assert "train.py is not here" in launch(*words, "--", "train.py", folder=tmp_path).stderr
    assert "train.py stands for your script" in (said := launch(*words, folder=tmp_path).stderr)
    assert "is not here" not in said
