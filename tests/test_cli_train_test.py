"""`gpudoctor train-test` as a user types it: real ranks over gloo on this machine, its outputs, wrong usage, Ctrl-C."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import psutil
import pytest

from tests.lab import warm
from tests.lab.sshd import user_environment

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.timeout(600)
"""Several processes import torch at once, beside the other tests."""
COMMAND = (sys.executable, "-m", "gpudoctor", "train-test")


def run(*arguments: str, timeout: float = 500, **variables: str) -> subprocess.CompletedProcess[str]:
    return warm.run_to_its_end(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**user_environment(), "COLUMNS": "80", **variables},
        text=True,
        timeout=timeout,
    )


def test_the_default_set_passes_on_a_healthy_machine_and_is_shown_again(tmp_path: Path) -> None:
    done = run("--backend", "gloo", "--json", "--timeout", "200", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((ROOT / "docs" / "schemas" / "train-test.json").read_text()))
    cells = {(cell["way"], cell["precision"]): cell for cell in found["cells"]}
    assert {name for name, cell in cells.items() if cell["outcome"] == "passed"} >= {
        (way, precision) for way in ("single", "ddp", "no_sync", "spawn", "fsdp") for precision in ("fp32", "bf16")
    }
    for cell in cells.values():
        assert cell["outcome"] in ("passed", "not applicable"), cell
        if cell["outcome"] == "passed":
            assert cell["trained"]["step_seconds"] > 0 and cell["trained"]["devices"]
        else:
            assert cell["reason"]
    assert cells["ddp", "fp32"]["trained"]["ranks"] == 2
    assert (found["backend"], found["steps"], found["exit_status"]) == ("gloo", 20, 0)
    assert found["settings"] == {"OMP_NUM_THREADS": "1"} and found["torch"]

    answer = tmp_path / "answer.json"
    answer.write_text(done.stdout)
    again = run("--from", str(answer))
    assert again.returncode == 0
    assert max(map(len, again.stdout.splitlines())) <= 80, again.stdout
    assert "gloo over CPU, not NCCL" in again.stdout and "OMP_NUM_THREADS=1" in again.stdout
    assert next(line.split()[1] for line in again.stdout.splitlines() if line.split()[:1] == ["ddp"]) == "passed"
    assert "no process is left" in " ".join(again.stdout.split())
    assert json.loads(run("--from", str(answer), "--json").stdout) == found


AFTER_WRAPPING = """
import os
if os.environ.get("RANK") == "1":
    import torch
    right = torch.nn.parallel.DistributedDataParallel.__init__

    def wrap(self, module, *arguments, **options):
        right(self, module, *arguments, **options)
        with torch.no_grad():
            module.head.bias += 0.5

    torch.nn.parallel.DistributedDataParallel.__init__ = wrap
"""


def test_a_rank_that_changes_its_weights_is_named_with_the_parameter_and_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(AFTER_WRAPPING)
    done = run(
        *("--strategy", "ddp,single", "--precision", "fp32", "--backend", "gloo", "--timeout", "200"),
        PYTHONPATH=str(tmp_path),
    )
    assert done.returncode == 1, done.stderr
    words = " ".join(done.stdout.split())
    assert "ddp fp32: rank 1 starts with another head.bias" in words, done.stdout
    assert "[train-initial-weights-differ]" in words and "torch.manual_seed(20)" in words
    assert "1 of 2 passed (gloo over CPU, not NCCL); 1 failed: ddp" in words


def test_names_of_old_tutorials_are_answered_without_starting_anything() -> None:
    done = run("--strategy", "ddp2,distributed_backend=dp", "--precision", "fp32")
    assert done.returncode == 3
    words = " ".join(done.stdout.split())
    assert "removed in lightning 1.7" in words and "removed in lightning 1.5" in words
    assert "Nothing to train" in words


WRONG = [
    (("--strategy", "nope"), "choose of single, dp, ddp"),
    (("--strategy", ""), "no way of training is named"),
    (("--precision", "fp8"), "choose of fp32, bf16, fp16"),
    (("--steps", "1"), "--steps"),
    (("--steps", "100000000"), "--steps"),
    (("--hosts", "a;reboot"), "'a;reboot'"),
    (("--hosts", "a", "--hostfile", "f"), "exclude each other"),
    (("--hostfile", "/nonexistent/hosts"), "no such file"),
    (("--exclude", "n01"), "--exclude"),
    (("--master-addr", "a;b"), "--master-addr 'a;b': a host's name"),
    (("--backend", "nccl"), "--backend nccl cannot run"),
    (("--from", "/nonexistent"), "no such file"),
    (("--python", "/nonexistent/python"), "no such file"),
    (("--gpus-per-node", "0"), "--gpus-per-node"),
]


def test_an_empty_answer_tells_nothing() -> None:
    done = run("--from", "/dev/null")
    assert (done.returncode, done.stdout) == (3, "")
    assert "the file is empty" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_usage_is_one_line_and_status_2(arguments: tuple[str, ...], says: str) -> None:
    if arguments == ("--backend", "nccl") and shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_job_that_started_its_ranks_is_sent_to_the_allocations_shell() -> None:
    done = run(TORCHELASTIC_RUN_ID="none", RANK="0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "without srun or torchrun" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_test_says_what_it_trained_and_leaves_no_process(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--strategy", "ddp", "--precision", "fp32", "--steps", "10000", "--backend", "gloo"],
        env=user_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    children: list[psutil.Process] = []
    while len(children) < 4:  # the agent, torchrun and two ranks
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 128 + number, errors
    assert "Interrupted: 0 of 1 passed" in " ".join(output.split())
    assert psutil.wait_procs(children, timeout=30)[1] == []
