"""The processes on a GPU, and whose they are."""

import os
from pathlib import Path

import pytest

from gpudoctor.read import nvml_processes
from gpudoctor.read.system import System
from tests.lab import machines
from tests.lab.reading import nvml_of, write

MIB = machines.MIB


def process(root: Path, pid: int, command: str, *, parent: int = 1, name: str = "python") -> None:
    write(root / f"proc/{pid}/cmdline", command)
    write(root / f"proc/{pid}/stat", f"{pid} ({name}) S {parent}" + " 0" * 50)
    write(root / f"proc/{pid}/comm", f"{name}\n")


def test_processes_have_a_user_and_the_beginning_of_their_command(gpu_root: Path) -> None:
    root = gpu_root
    process(root, 4001, "python\0train.py\0--api-key=hunter2\0--epochs\0")
    process(root, 4002, "", name="kworker (nv) x")
    process(root, 4003, "torchrun\0" + "--nnodes\0002\0" * 30, parent=os.getpid())
    write(root / "etc/passwd", f"root:x:0:0::/root:/bin/sh\nalice:x:{os.getuid()}:1::/:/bin/sh\n")
    facts = {"process.0": f"4001 {7 * MIB}", "process.1": "4002 -1", "process.2": "4003 0", "process.3": "4004 0"}
    machine = machines.hgx_h100(1).but_gpu(0, **facts, **{"graphics.0": f"4001 {7 * MIB}", "graphics.1": "3999 1"})
    found = nvml_of(machine, root).gpus.value[0].processes.value
    assert [(one.pid, one.kind) for one in found] == [
        (3999, "graphics"),
        (4001, "compute"),
        (4002, "compute"),
        (4003, "compute"),
        (4004, "compute"),
    ]
    by_pid = {one.pid: one for one in found}
    assert by_pid[4001].command.value == "python train.py"
    assert by_pid[4001].user.value == ("root" if os.getuid() == 0 else "alice")
    assert (by_pid[4001].memory_bytes, by_pid[4002].memory_bytes) == (7 * MIB, None)
    assert by_pid[4002].command.value == "[kworker (nv) x]"
    assert len(by_pid[4003].command.value) == 120
    assert by_pid[4004].user.missing_kind == "failed", "it has ended: unknown, not absent"
    assert [one.pid for one in found if one.is_own] == [4003]


def test_host_pids_seen_from_a_container_are_said_to_be(gpu_root: Path) -> None:
    root = gpu_root
    (root / "proc/self/ns/pid").unlink()
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    process(root, 4001, "an\0innocent\0namesake\0", parent=os.getpid())
    machine = machines.hgx_h100(1).but_gpu(0, **{"process.0": "4001 5"})
    (found,) = nvml_of(machine, root).gpus.value[0].processes.value
    assert found.user.reason == found.command.reason == "host pid; not visible from this PID namespace"
    assert not found.is_own


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("python\0-m\0torch.distributed.run\0train.py\0", "python -m torch.distributed.run train.py"),
        ("env\0HF_TOKEN=hf_abc\0python\0", "env python"),
        ("./train\0--wandb-api-key\0abc\0", "train"),
        ("/home/author/venv/bin/python\0monkey.py\0", "python monkey.py"),
        ("sh\0-c\0echo\x1b[31m\0", "sh -c"),
    ],
)
def test_a_command_is_kept_without_what_is_not_known(command: str, kept: str, tmp_path: Path) -> None:
    process(tmp_path, 7, command)
    assert nvml_processes.command_of(System(tmp_path), 7) == kept
