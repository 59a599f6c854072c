"""What users give by mistake: a picture, a job's log, a name that nobody has. One line, status 2, what was wanted."""

from io import BytesIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gpudoctor.checkpoint.foreign import what_it_is
from gpudoctor.cli.group import app
from gpudoctor.diagnose import diagnose
from gpudoctor.errors import BadInput
from gpudoctor.explain.explain import explain
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.render.prose import show_page

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
LOG = (
    "[2026-11-19 22:31:02] step 10 loss 2.31\n"
    "Traceback (most recent call last):\n"
    '  File "/home/mara/train.py", line 61, in main\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def refusal(*words: str) -> str:
    error = CliRunner().invoke(app, [*words]).exception
    assert isinstance(error, BadInput) and error.status == 2
    return str(error)


@pytest.mark.parametrize("command", ["hang", "slow", "explain", "report", "nccl-test"])
@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (PNG, "it is a picture (PNG)"),
        (LOG.encode(), "it seems to be the log of a job; `gpudoctor explain FILE` reads it"),
        (b"hello\n", "it is no JSON"),
    ],
    ids=["picture", "log", "text"],
)
def test_a_file_that_is_no_answer_is_called_what_it_is(command: str, raw: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(raw)
    said = refusal(command, "--from", str(tmp_path / "given"))
    assert told in said and "what gpudoctor has written is wanted" in said and "malformed" not in said


@pytest.mark.thorough  # it looks at the processes of this machine
def test_a_user_whom_nobody_knows_is_wrong_usage() -> None:
    assert "this machine knows no such user" in refusal("hang", "--user", "no-such-user-here")


def test_report_of_a_file_says_what_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    assert "the folder of a run is wanted; `gpudoctor explain FILE`" in refusal("report", str(tmp_path / "train.log"))


def test_a_log_that_begins_with_a_time_is_no_json() -> None:
    assert "it is a text" in what_it_is(LOG.encode(), len(LOG), "model.pt")
    for text in ('{"a": 1}', "[1, 2]", "[\n  {}]", "[]", "[-1.5, 2]"):
        assert "it is a JSON text" in what_it_is(text.encode(), len(text), "model.pt")


def fixes(report: str) -> dict[str, list[str]]:
    """The lines to paste, by check."""
    results = diagnose(snapshot_of(report.encode()), *chosen_checks([])).results
    return {
        result.check: [str(line) for problem in result.problems for line in problem.fix.commands]
        for result in results
        if result.problems
    }


def test_a_fix_does_not_undo_the_one_above_it() -> None:
    report = (
        "PyTorch version: 2.9.0+cpu\nIs debug build: False\nCUDA used to build PyTorch: None\n"
        "ROCM used to build PyTorch: N/A\n\nOS: Ubuntu 22.04.4 LTS (x86_64)\n\n"
        "Python version: 3.11.9 (64-bit runtime)\nIs CUDA available: False\n"
        "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090\nNvidia driver version: 535.171.04\n"
        "\nVersions of relevant libraries:\n[pip3] torch==2.9.0+cpu\n[pip3] torchvision==0.19.0+cu121\n"
    )
    lines = fixes(report)
    assert lines["torch-cpu-only"] and not lines["torch-mixed-versions"]
    alone = report.replace("GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090\n", "")
    assert any("torchvision" in line for line in fixes(alone)["torch-mixed-versions"])


def test_a_torch_for_the_cpu_is_not_told_as_a_machine_without_gpus() -> None:
    said = "- `Accelerate` version: 0.34.2\n- Python version: 3.10.14\n- PyTorch version (GPU?): {} (False)\n"
    assert "torch 2.4.0+cpu is built for the CPU" in " ".join(snapshot_of(said.format("2.4.0+cpu").encode()).lacks)
    assert "no GPU, no driver" in " ".join(snapshot_of(said.format("2.4.0+cu121").encode()).lacks)


def test_a_page_has_no_empty_lines_of_what_had_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Console(no_color=True, width=80)

    def draw() -> None:
        for text in ("", "", "one job", "", "", "another", ""):
            screen.print(text)

    show_page(screen, draw, lambda: screen.print("the verdict"))
    show_page(screen, screen.print, lambda: screen.print("the verdict"))
    assert capsys.readouterr().out == "one job\n\nanother\n\nthe verdict\nthe verdict\n"


PYTEST = """\
=================================== FAILURES ===================================
__________________________________ test_spawn __________________________________

    def test_spawn():
>       mp.spawn(w, nprocs=2)

test_mp.py:5:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

self = <torch.multiprocessing.spawn.ProcessContext object at 0x7fb0ee374c50>
timeout = None

    def join(self, timeout=None):
        # Exit code of a process that failed, and error of the connection
        if exitcode < 0:
            raise ProcessExitedException("process %d terminated with signal %s", error_index)
>       raise ProcessRaisedException(msg, error_index, failed_process.pid)
E       torch.multiprocessing.spawn.ProcessRaisedException:
E
E       -- Process 1 terminated with the following error:
E       Traceback (most recent call last):
E         File "/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 87, in _wrap
E           fn(i, *args)
E         File "/work/test_mp.py", line 3, in w
E           assert r != 1, "rank one is bad"
E                  ^^^^^^
E       AssertionError: rank one is bad

/opt/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py:211: ProcessRaisedException
=========================== short test summary info ============================
FAILED test_mp.py::test_spawn - torch.multiprocessing.spawn.ProcessRaisedExce...
1 failed in 29.64s
"""


def test_source_that_pytest_lists_is_no_trouble_before_the_cause(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_text(PYTEST)
    first = explain([str(tmp_path / "out.log")], stdin=BytesIO()).causes[0]
    assert "AssertionError: rank one is bad" in first.summary and first.confidence >= 0.5
