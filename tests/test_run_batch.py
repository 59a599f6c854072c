"""What `gpudoctor run` makes of several nodes, of settings, and the batch script that it prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.library import lint
from gpudoctor.run.batch import nodes_of, script
from gpudoctor.settings import BadConfig, nearest

TORCHRUN = (
    "torchrun",
    "--nnodes=2",
    "--nproc-per-node",
    "4",
    "--rdzv-backend=c10d",
    "--rdzv-endpoint=n1:29500",
    "t.py",
)


@pytest.mark.thorough
def test_the_printed_script_is_a_start_that_lint_finds_well() -> None:
    for command in (TORCHRUN, ("torchrun", "--nproc-per-node=8", "train.py"), ("srun", "--ntasks=8", "python", "t.py")):
        text = script(command, ["--stall", "300"])
        report = lint(text)
        assert not [each for each in report.problems if each.severity == "error"], report.problems
        assert report.understood.launcher in ("torchrun", "srun"), report.understood
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n" in script(TORCHRUN, [])
    assert script(("srun", "a b"), []).endswith("\ngpudoctor run -- srun 'a b'\n")


@pytest.mark.thorough
def test_what_is_wrong_with_the_line_of_the_printed_script_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["run", "--print-sbatch", "--", "torchrun", "--nnodes=2", "--nproc-per-node=8", "train.py"]) == 0
    told = capsys.readouterr()
    assert told.out.endswith("gpudoctor run -- torchrun --nnodes=2 --nproc-per-node=8 train.py\n")
    assert "R05" in told.err and "$SLURM_NODEID" in told.err
    assert cli.run(["run", "--print-sbatch", "--", *TORCHRUN]) == 0
    assert not capsys.readouterr().err


def test_on_how_many_nodes_a_line_is_run() -> None:
    assert nodes_of(TORCHRUN, {}) == 2
    of_step = {"SLURM_STEP_NUM_NODES": "4", "SLURM_STEP_NUM_TASKS": "4"}
    assert nodes_of(("python", "train.py"), of_step) == 4
    assert nodes_of(("python", "train.py"), {**of_step, "SLURM_STEP_NUM_TASKS": "32"}) == 1
    assert nodes_of(("srun", "torchrun", "--nnodes=2"), of_step) == 1
    assert nodes_of(("torchrun", "--nnodes=1:4", "t.py"), {"PET_NNODES": "x"}) == 1


def test_settings_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert nearest(inner, "run") is None
    (tmp_path / "pyproject.toml").write_text("[tool.gpudoctor.run]\nstall = 300\n[tool.gpudoctor.lint]\noff = []\n")
    found = nearest(inner, "run")
    assert found is not None and found.content == {"stall": 300} and found.name == "[tool.gpudoctor.run]"
    (tmp_path / "gpudoctor.toml").write_text("[lint]\n")
    assert nearest(inner, "run") == found
    (tmp_path / "gpudoctor.toml").write_text("[rum]\n")
    with pytest.raises(BadConfig, match=r"known: the tables \[lint\] and \[run\]"):
        nearest(inner, "run")


@pytest.mark.thorough
@pytest.mark.parametrize("options", ["true", "--", "--help", "--print-sbatch", "--stall 5 echo"])
def test_the_variable_puts_no_command_in_front_of_what_was_typed(options: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpudoctor", "run", "--preflight", "none", "--", "echo", "ran"]
    variables = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(command, env={**variables, "GPUDOCTOR_RUN": options}, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (125, b"") and b"GPUDOCTOR_RUN holds options" in done.stderr, done


WRONG = {
    'stall = "soon"': b"gpudoctor.toml: [run] stall is 'soon'; it takes a number",
    "stall = -3": b"gpudoctor.toml [run]: Invalid value for '--stall': -3.0 is not in the range",
    'on-stall = "explode"': b"gpudoctor.toml [run]: Invalid value for '--on-stall'",
    "report = 5": b"gpudoctor.toml: [run] report is 5; it takes a text",
    "preflight = true": b"gpudoctor.toml: [run] preflight is True; it takes a text",
    "quiet = 1": b"gpudoctor.toml: [run] quiet is 1; it takes true or false",
    "nonsense = 1": b"gpudoctor.toml: [run] 'nonsense' is not known; known: no-arm",
    "--stall soon": b"GPUDOCTOR_RUN: Invalid value for '--stall'",
    "--stal 3": b"GPUDOCTOR_RUN: No such option: --stal",
}


@pytest.mark.thorough
@pytest.mark.parametrize("setting", WRONG)
def test_a_wrong_setting_is_told_with_who_says_it(setting: str, tmp_path: Path) -> None:
    of_file = "" if setting.startswith("--") else f"[run]\n{setting}\n"
    (tmp_path / "gpudoctor.toml").write_text(of_file)
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "run", "--", "echo", "ran"],
        cwd=tmp_path,
        env={**os.environ, "GPUDOCTOR_RUN": "" if of_file else setting, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, b""), done
    assert WRONG[setting] in done.stderr and done.stderr.count(b"\n") == 1
