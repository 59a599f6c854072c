"""What `explain` tells programs (class, blame, restart), what it takes beside files, and a log that grows."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from gpudoctor.cause import BLAMES, RESTARTS, Restart
from gpudoctor.cli.explain import POLICY, is_text
from gpudoctor.cli.group import app
from gpudoctor.errors import BadInput
from gpudoctor.explain.classes import judged_exception
from gpudoctor.explain.course import course
from gpudoctor.explain.explain import explain
from gpudoctor.explain.follow import followed
from gpudoctor.fault_classes import CLASSES

STEPS = "".join(f"step {step} loss 2.{step}\n" for step in range(100, 106))
LOST = (
    "Aug 19 11:40:02 gpu-a03 kernel: NVRM: Xid (PCI:0000:17:00): 79, pid=4, name=python, GPU has fallen off the bus.\n"
)


def answered(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["explain", "--no-color", *words], env={"COLUMNS": "200"})
    if isinstance(result.exception, BadInput):  # the program's own way out makes 2 of it
        return BadInput.status, str(result.exception)
    return result.exit_code, result.output


def told(text: str) -> dict[str, object]:
    _, output = answered("--json", text)
    answer = json.loads(output)
    return {name: answer[name] for name in ("class", "blame", "restart", "exclude") if name in answer}


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        ("*** JOB 88121 ON gpu-a03 CANCELLED AT 2025-08-19T11:40:02 DUE TO PREEMPTION ***", 0, "as it is"),
        (LOST, 10, "elsewhere --exclude=gpu-a03"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/d/a.csv'", 11, "after a fix"),
        ("something else happened here", 3, "not decided"),
    ],
)
def test_restart_policy_is_an_exit_status(text: str, status: int, line: str) -> None:
    assert answered("--restart-policy", text) == (status, f"{line}\n")


def test_every_restart_has_a_status() -> None:
    assert set(POLICY) == set(get_args(Restart)) == set(RESTARTS)


def test_class_and_blame_are_in_the_json_and_with_v() -> None:
    assert told("OSError: [Errno 122] Disk quota exceeded: '/home/mara/a.pt'") == {
        "class": "quota", "blame": "environment", "restart": "after a fix", "exclude": [],
    }  # fmt: skip
    assert "Class: no-device; to blame: environment" in answered("-v", "RuntimeError: No CUDA GPUs are available")[1]


ADVICE = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'a'", "file-missing"),
        ("OSError", "[Errno 28] No space left on device", "disk-full"),
        ("OSError", "[Errno 13] Permission denied: '/x'", "permission"),
        ("AssertionError", "", "assertion"),
        ("AssertionError", "dataset must have 3 columns", "assertion"),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (4x8 and 9x2)", "shape"),
        ("RuntimeError", "Error(s) in loading state_dict for Net", "checkpoint"),
        ("ValueError", "loss is nan at step 12", "nan"),
        ("TypeError", "f() got an unexpected keyword argument 'attn'", "dependency-mismatch"),
        ("MisconfigurationException", "no such strategy", "config"),
        ("gaierror", "[Errno -2] Name or service not known", "name-resolution"),
        ("Strange", "", "exception"),
        # every error of CUDA ends with torch's advice about device-side assertions
        ("torch.AcceleratorError", f"CUDA error: context is destroyed\n{ADVICE}", "exception"),
        ("torch.AcceleratorError", "CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `f( h)`", "argument"),
        ("torch.distributed.DistBackendError", "NCCL error in: x.cpp:9, internal error", "exception"),
        ("torch.distributed.DistNetworkError", "code: -98, name: EADDRINUSE, message: address already in use", "port"),
        # the next line is another rank's
        ("TypeError", "f() takes 1\n[W socket.cpp:6] [c10d] ... (errno: 104 - Connection reset by peer).", "argument"),
    ],
)
def test_classes_of_exceptions(name: str, message: str, kind: str) -> None:
    judged = judged_exception(name, message)
    assert judged.kind == kind
    assert judged.kind in CLASSES and judged.blame in BLAMES and judged.restart in RESTARTS


def test_a_text_has_blanks_and_names_no_file(tmp_path: Path) -> None:
    there = tmp_path / "my log.txt"
    there.write_text(STEPS)
    assert [is_text(each) for each in ("-", "no-such-file", str(there), "ValueError: x is 3", "x" * 5000 + " y")] == [
        False, False, False, True, True,
    ]  # fmt: skip
    assert answered("no-such-file")[0] == 2


def test_the_files_of_a_tar_are_logs(tmp_path: Path) -> None:
    archive = tmp_path / "pods.tar.gz"
    with tarfile.open(archive, "w:gz") as written:
        for name, text in (("pod-0.log", STEPS), ("pod-1.log", LOST)):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            written.addfile(member, io.BytesIO(text.encode()))
    status, output = answered(str(archive))
    assert status == 1 and "xid-gpu-lost" in output and "pods.tar.gz:pod-1.log:1" in output
    from_a_pipe = explain(["-"], stdin=io.BytesIO(archive.read_bytes()))
    assert [line.file for line in from_a_pipe.causes[0].evidence] == ["standard input:pod-1.log"]
    archive.write_bytes(archive.read_bytes()[:-40])
    assert answered(str(archive))[0] in (1, 3), "cut off: what was read is told"
    archive.write_bytes(b"no archive")
    assert answered(str(archive))[0] == 2


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x04\0\0\0\x04\x08\x02\0\0\0"


@pytest.mark.parametrize(
    ("raw", "told"), [(PNG, "it is a picture (PNG)"), (b"%PDF-1.7\nTraceback\n", "it is a PDF"), (b"PK\3\4ab", "a zip")]
)
def test_a_file_that_is_no_text_is_called_what_it_is(raw: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "shot.log").write_bytes(raw)
    status, output = answered(str(tmp_path / "shot.log"))
    assert status == 2 and told in output


def test_zero_bytes_are_not_called_an_empty_log(tmp_path: Path) -> None:
    log = tmp_path / "node-went-down.log"
    for write_it in (lambda: log.write_bytes(b"\0" * 70_000), lambda: os.truncate(log, 1 << 31)):
        write_it()
        status, output = answered(str(log))
        assert status == 3 and "zero bytes and nothing else" in output
    log.write_bytes(b"")
    assert "the log is empty" in answered(str(log))[1]


def test_without_standard_input_a_log_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOST)
    ended = [
        subprocess.run(
            ["/bin/sh", "-c", 'exec "$0" -m gpudoctor explain "$1" <&-', sys.executable, name],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        for name in ("a.log", "-")
    ]
    assert [each.returncode for each in ended] == [1, 2] and b"standard input is closed" in ended[1].stderr


def test_a_log_is_followed_until_something_fails(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(STEPS)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            log.write_text(STEPS + LOST)
        assert len(waits) < 9, "it never speaks"

    seen = followed([str(log)], lambda: explain([str(log)], stdin=io.BytesIO()), sleep=sleep, clock=lambda: 0.0)
    assert seen.causes[0].cause == "xid-gpu-lost" and len(waits) == 3


def test_what_a_job_went_on_after_is_no_cause(tmp_path: Path) -> None:
    assert answered(write(tmp_path, "OSError: [Errno 5] Input/output error: '/a'\n" + STEPS))[0] == 0
    assert answered(write(tmp_path, STEPS + "OSError: [Errno 5] Input/output error: '/a'\n"))[0] == 1
    ignored = (
        'Exception ignored in: <function X.__del__ at 0x7f>\nTraceback (most recent call last):\n  File "a.py", line 1'
    )
    assert answered(write(tmp_path, f"{ignored}, in __del__\nAssertionError: x\n{STEPS}"))[0] == 0


def test_the_same_count_again_is_no_progress() -> None:
    bar = [(1, "  0%| | 0/1500 [00:00<?, ?it/s]"), (2, "  0%| | 0/1500 [00:02<?, ?it/s]")]
    assert course(bar).course == "not shown"
    assert course([bar[0], (2, "  1%| | 9/1500 [00:02<?, ?it/s]")]).course == "gets on"


def test_a_log_that_ends_in_tries_says_where() -> None:
    status, output = answered(
        "n0:1:2 [0] NCCL INFO socketPollConnect: connect to 10.4.0.9<51210> returned No route to host, retrying (6/34)"
    )
    assert status == 1 and "10.4.0.9" in output and "try 6 of 34" in output


def write(folder: Path, text: str) -> str:
    log = folder / "a.log"
    log.write_text(text)
    return str(log)


def of_text(text: str) -> tuple[str, list[int]]:
    """The class of the first cause, and the lines that are quoted for it."""
    answer = explain((), stdin=io.BytesIO(), texts=(text,))
    return (answer.causes[0].kind, [line.line for line in answer.causes[0].evidence]) if answer.causes else ("", [])


def test_trouble_that_a_log_tells_directly_before_an_exception_is_quoted_with_it() -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in run\n    go()\nZooError: no zebra\n'
    assert of_text(f"zoolib: cannot find the stable /z/9\n{raised}")[1] == [5, 1]
    assert of_text(f"zoolib: cannot find the stable, retrying\n{raised}")[1] == [5]
    assert of_text(f"zoolib: cannot find the stable\nstep 1 loss 2.0\nstep 2 loss 1.9\n{raised}")[1] == [7]
    assert of_text("zoolib: cannot find the stable\n" + "still looking\n" * 9 + raised)[1] == [14]


def test_ends_by_a_build_and_by_losses_that_are_no_numbers() -> None:
    failed = 'k.cu(12): error: identifier "fp8" is undefined\nninja: build stopped: subcommand failed.\n'
    assert of_text(f"[3/9] nvcc -c k.cu\n{failed}") == ("dependency-mismatch", [2])
    assert of_text(STEPS + "step 106 loss nan\nstep 107 loss nan\nstep 108 loss nan\n") == ("nan", [7, 8, 9])
    assert of_text(STEPS + "step 106 loss nan\nstep 107 loss 2.3\nstep 108 loss 2.2\n") == ("", [])
    assert course([(1, "fit finished. errors=0 failed=0")]).well
    assert not course([(1, "fit finished. errors=0 failed=2")]).well


@pytest.mark.parametrize(
    ("name", "message", "file", "kind"),
    [
        # what a library is for says nothing of how it was called
        ("ValueError", "`unit` must be one of 's', 'ms', got 'h'", "/v/datasets/table.py", "argument"),
        ("TypeError", "inputs should be a collection of tensors", "/v/torch/cuda/nccl.py", "argument"),
        ("RuntimeError", "Cannot pickle CUDA storage", "/v/torch/multiprocessing/reductions.py", "argument"),
        ("ValueError", "`fused` must be a bool, got 3", "/v/transformers/training_args.py", "config"),
        ("RuntimeError", "no answer", "/v/huggingface_hub/file_download.py", "download"),
    ],
)
def test_where_it_was_raised_counts_where_its_words_do_not(name: str, message: str, file: str, kind: str) -> None:
    assert judged_exception(name, message, file).kind == kind


@pytest.mark.parametrize(
    ("raised", "class_"),
    [
        ("FutureWarning", "config"),
        ("BytesWarning", "config"),
        ("torch._inductor.exc.InductorError", "dependency-mismatch"),
        ("NotABuiltinError", "exception"),
    ],
)
def test_an_exceptions_class_is_that_of_its_ancestors(raised: str, class_: str) -> None:
    assert judged_exception(raised, "so it is").kind == class_


@pytest.mark.parametrize(
    ("text", "says", "never"),
    [
        (
            "Traceback (most recent call last):\n"
            '  File "/usr/lib/python3.12/inspect.py", line 1063, in getsourcelines\n'
            "    raise OSError('source code not available')\n"
            "OSError: source code not available\n",
            "source code not available",
            "inspect.py:1063",
        ),
        (
            "(autoscaler +41s) Error: No available node types can fulfill resource request defaultdict(<class 'float'>,"
            " {'CPU': 4.0, 'GPU': 4.0}). Add suitable node types to this cluster to resolve this issue.\n",
            "what Ray counts",
            "sinfo",
        ),
        (
            "Training complete\n" + '{"name": "worker.status.SUCCEEDED", "raw_error": null, "restarts": 0}\n' * 3,
            "Nothing wrong found",
            "look like trouble",
        ),
    ],
    ids=["own-library", "ray", "null"],
)
def test_forms_of_threads(tmp_path: Path, text: str, says: str, never: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(text)
    told = answered("-v", str(log))[1]
    assert says in told and never not in told, told
