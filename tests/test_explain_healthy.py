"""Logs of healthy runs, made here by every launcher: no cause may be named."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from tests.explain_jobs import ACCELERATE, LIGHTNING, SPAWN, TRAIN, free_port, output_of, torchrun

LOUD = {"TORCH_CPP_LOG_LEVEL": "INFO", "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "NCCL_DEBUG": "INFO"}
SPOKEN = {"TORCH_CPP_LOG_LEVEL": "INFO", "TORCH_DISTRIBUTED_DEBUG": "INFO", "PYTHONWARNINGS": "default"}
"""DETAIL with DistributedDataParallel ends by a segmentation fault in torch 2.13's teardown on the CPU."""


def explained(*paths: Path) -> Explanation:
    return explain([str(path) for path in paths], stdin=sys.stdin.buffer)


def healthy(answer: Explanation) -> None:
    assert [(cause.cause, cause.summary, cause.evidence) for cause in answer.causes] == []
    assert answer.unknown is None
    assert answer.lines > 0


def is_there(framework: str) -> None:
    """As `importorskip`, which would import it here too: five seconds for what the job imports itself."""
    if find_spec(framework) is None:
        pytest.skip(f"needs {framework}")


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text)
    return path


def test_torchrun(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    assert output_of(torchrun(script(tmp_path, TRAIN), "none"), log, truly=True) == 0, log.read_text()
    healthy(explained(log))
    assert set(explained(log).ranks) <= {0, 1}


def test_torchrun_with_a_log_folder(tmp_path: Path) -> None:
    log, folder = tmp_path / "job.log", tmp_path / "logs"
    options = [f"--log-dir={folder}", "--redirects=3", "--tee=3"]
    assert output_of(torchrun(script(tmp_path, TRAIN), "none", options=options), log, LOUD) == 0, log.read_text()
    healthy(explained(log))
    answer = explained(folder)
    assert len(answer.files) == 4
    healthy(answer)


def test_torchrun_over_c10d(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    options = ["--nnodes=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=a"]
    assert output_of(torchrun(script(tmp_path, TRAIN), "none", options=options), log, LOUD) == 0, log.read_text()
    healthy(explained(log))


def test_spawn(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    words = [sys.executable, str(script(tmp_path, SPAWN)), str(free_port())]
    assert output_of(words, log, SPOKEN) == 0, log.read_text()
    healthy(explained(log))


def test_lightning(tmp_path: Path) -> None:
    is_there("lightning")
    log = tmp_path / "job.log"
    words = [sys.executable, str(script(tmp_path, LIGHTNING))]
    variables = {**SPOKEN, "MASTER_PORT": str(free_port())}
    assert output_of(words, log, variables) == 0, log.read_text()
    healthy(explained(log))


def test_accelerate(tmp_path: Path) -> None:
    is_there("accelerate")
    log = tmp_path / "job.log"
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes=2"]
    words = [*launcher, f"--main_process_port={free_port()}", str(script(tmp_path, ACCELERATE))]
    assert output_of(words, log, SPOKEN) == 0, log.read_text()
    healthy(explained(log))


def test_a_boot_and_an_idle_kernel_are_healthy(tmp_path: Path) -> None:
    """What a kernel log says on any day."""
    log = tmp_path / "dmesg.txt"
    log.write_text(
        "[    0.000000] Linux version 6.8.0 (builder@n7) (gcc 13.2.0) #1 SMP\n"
        "[    1.532015] ACPI: PCI Interrupt Link [LNKA] configured for IRQ 11\n"
        "[    3.871200] nvidia: loading out-of-tree module taints kernel.\n"
        "[    3.990000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05\n"
        "[    5.102220] mlx5_core 0000:1b:00.0: Port module event: module 0, Cable plugged\n"
        "[    9.700011] EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode\n"
        "[   11.000450] systemd[1]: Started Journal Service.\n" * 30
    )
    healthy(explained(log))
