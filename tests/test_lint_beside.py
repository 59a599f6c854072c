"""Files that a start names and that lie beside it: read, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint.beside import with_beside
from gpudoctor.lint.starts import SourceFile

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
