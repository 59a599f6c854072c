"""Files that a start names and that lie beside it: read, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint.asked import AskedFacts
from gpudoctor.lint.beside import typed, with_beside
from gpudoctor.lint.several import judged
from gpudoctor.lint.starts import SourceFile, StartFiles

TASK = "torchrun --nnodes=2 --nproc-per-node=$1 --node-rank=0 --master-addr=10.20.0.11 --master-port=70000 train.py\n"


def names(main: Path) -> list[str]:
    start = with_beside(SourceFile(str(main), main.read_text()))
    return [os.path.relpath(each.file, main.parent) for each in start.beside]


def test_what_it_names_below_its_folder_is_read(tmp_path: Path) -> None:
    main, task = tmp_path / "start.sh", tmp_path / "tools" / "task.sh"
    task.parent.mkdir()
    task.write_text(TASK + "source $HERE/env.sh\n")
    (task.parent / "env.sh").write_text("export NCCL_DEBUG=INFO\n")
    main.write_text("cd $HERE; bash ./tools/task.sh 4\n")
    assert names(main) == ["tools/task.sh"]
    main.write_text("cd $HERE; bash ./tools/task.sh 4; source tools/env.sh\n")
    assert sorted(names(main)) == ["tools/env.sh", "tools/task.sh"]


@pytest.mark.parametrize("line", ["torchrun -m tools.task", "accelerate launch --module tools.task --lr 1"])
def test_a_module_is_a_file_too(line: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "task.py").write_text(ALONE)
    (tmp_path / "start.sh").write_text(f"{line}\npip install -m other\n")
    assert names(tmp_path / "start.sh") == ["tools/task.py"]
    start = with_beside(SourceFile(str(tmp_path / "start.sh"), (tmp_path / "start.sh").read_text()))
    assert [problem.code for problem in judged(start, AskedFacts()).report.problems] == ["T01"]


def test_nothing_outside_and_no_fifo_is_read(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside.sh", tmp_path / "here"
    folder.mkdir()
    outside.write_text(TASK)
    os.mkfifo(folder / "fifo.sh")
    (folder / "link.sh").symlink_to(outside)
    (folder / "device.sh").symlink_to("/dev/zero")
    main = folder / "start.sh"
    main.write_text(f"bash ../outside.sh; bash {outside}; bash fifo.sh; bash link.sh; bash device.sh; bash gone.sh\n")
    assert names(main) == []


def test_many_and_large_ones_are_left(tmp_path: Path) -> None:
    main = tmp_path / "start.sh"
    main.write_text("".join(f"bash t{number}.sh\n" for number in range(100)) + "bash large.sh\n")
    for number in range(100):
        (tmp_path / f"t{number}.sh").write_text(TASK)
    assert len(names(main)) == 32
    main.write_text("bash large.sh\n")
    (tmp_path / "large.sh").write_text(TASK * 20_000)
    assert names(main) == []


@pytest.mark.parametrize(("options", "told"), [((), "P01"), (("--no-follow",), "task.sh: not given; give it too")])
def test_the_command_follows_unless_it_is_told_not_to(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "task.sh").write_text(TASK)
    (tmp_path / "start.sh").write_text("bash task.sh 4\n")
    command = [sys.executable, "-m", "gpudoctor", "lint", *options, "--format", "short", str(tmp_path / "start.sh")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told in done.stdout


ALONE = "import torch.distributed as dist\n\ndist.init_process_group()\nif dist.get_rank() == 0:\n    dist.barrier()\n"


def test_a_command_is_judged_with_the_program_that_it_names(tmp_path: Path) -> None:
    """Of this folder, or wherever the user himself says that it lies; never a FIFO."""
    (tmp_path / "train.py").write_text(ALONE)
    (tmp_path / "here").mkdir()
    os.mkfifo(tmp_path / "here" / "fifo.py")
    words = [sys.executable, "-m", "gpudoctor", "lint", "--format", "short"]
    start = ["--", "torchrun", "--standalone", "--nproc-per-node=2"]
    for folder, program, told in (
        (tmp_path, "train.py", "train.py:5:5: error"),
        (tmp_path / "here", "../train.py", "../train.py:5:5: error"),
        (tmp_path / "here", "fifo.py", ""),
    ):
        done = subprocess.run(
            [*words, *start, program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout[: len(told)], done.stderr) == (int(bool(told)), told, ""), done
    done = subprocess.run(
        [*words, "--no-follow", *start, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_program_that_is_not_there_is_said_not_to_be_judged() -> None:
    start = typed(["torchrun", "--standalone", "--nproc-per-node=2", "nowhere/train.py"])
    assert not start.beside
    report = judged(start, AskedFacts()).report
    assert report.verdict == "ok"
    assert report.unknown == ("line 1: nowhere/train.py: not given, so what its ranks do was not judged",)
    there = StartFiles(start.main, (SourceFile("train.py", ALONE.replace("    dist", "    pass  # dist")),))
    assert not judged(there, AskedFacts()).report.unknown
