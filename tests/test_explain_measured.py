"""Fixes made from a case's own numbers and paths, and the earlier line that tells more than the one that sums up."""

import io

import pytest

from gpudoctor.explain.device_memory import held
from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import LogCause

FRAME = 'Traceback (most recent call last):\n  File "/w/fit.py", line 7, in <module>\n    act()\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU 1 has a total capacity of 79.15 GiB "
OF_TORCH = "Of the allocated memory {own} is allocated by PyTorch, and {loose} is reserved by PyTorch but unallocated."


def cause(text: str) -> LogCause:
    (first, *_) = explain((), stdin=io.BytesIO(), texts=(text,)).causes
    return first


def oom(processes: str, *, wanted: str = "1.50 GiB", own: str = "16.90 GiB", loose: str = "12.00 MiB") -> str:
    head = OOM.format(wanted=wanted) + f"of which 311.00 MiB is free. {processes}"
    return f"{FRAME}{head} {OF_TORCH.format(own=own, loose=loose)}\n"


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        # in a container's own process numbers torch does not find itself: which of the two it is, its own sum tells
        (
            oom("Process 71 has 61.40 GiB memory in use. Process 90 has 17.20 GiB memory in use."),
            "kill 71",
            "kill 71 90",
        ),
        (
            oom("Including non-PyTorch memory, this process has 78.80 GiB memory in use.", loose="16.20 GiB"),
            "lie in pieces",
            "smaller batches",
        ),
        (
            oom("Including non-PyTorch memory, this process has 8.00 GiB memory in use.", wanted="220.50 GiB"),
            "/w/fit.py:7",
            "smaller batches",
        ),
        (
            "  Instantaneous batch size per device = 8\n"
            + oom("Including non-PyTorch memory, this process has 78.80 GiB memory in use.", own="77.10 GiB"),
            "per_device_train_batch_size from 8 to 4",
            "another process",
        ),
        (
            f"{FRAME}RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 23.69 GiB total capacity; "
            "1.40 GiB already allocated; 120.00 MiB free; 2.10 GiB reserved in total by PyTorch)\n",
            "21.5 GiB are another process's",
            "smaller batches",
        ),
    ],
)
def test_who_holds_the_memory_of_a_gpu(text: str, wanted: str, unwanted: str) -> None:
    told = cause(text).fix.text
    assert wanted in told
    assert unwanted not in told


def test_a_message_without_sizes_is_no_such_message() -> None:
    assert held("torch.OutOfMemoryError: CUDA out of memory.") is None


def _ordinals(failed: tuple[int, ...], closed: int) -> str:
    rows = "".join(
        f"  rank      : {local} (local_rank: {local})\n  exitcode  : 1 (pid: {local + 90})\n" for local in failed
    )
    return (
        f"{FRAME}RuntimeError: CUDA error: invalid device ordinal\n"
        + "".join(
            f"WARNING: torch api.py: Sending process {number} closing signal SIGTERM\n" for number in range(closed)
        )
        + f"ERROR:torch api:failed (exitcode: 1) local_rank: {failed[0]} (pid: 94) of binary: /usr/bin/python\n{rows}"
    )


def test_the_first_local_rank_without_a_gpu_counts_those_that_are_seen() -> None:
    assert "--nproc-per-node=4" in cause(_ordinals((4, 5, 6, 7), closed=4)).fix.text
    assert "--nproc-per-node=4" not in cause(_ordinals((4, 5), closed=0)).fix.text  # others' ends are not told


def test_a_full_disk_is_that_of_what_was_being_written() -> None:
    log = f"Saving model checkpoint to /out/run7/checkpoint-50\n{FRAME}OSError: [Errno 28] No space left on device\n"
    assert "df -h /out/run7/checkpoint-50" in cause(log).fix.commands


def test_settings_that_were_printed_give_the_numbers_of_an_assertion() -> None:
    settings = "  num_layers ...................... 46\n  pipeline_model_parallel_size .... 4\n"
    error = "AssertionError: Number of layers should be divisible by the pipeline-model-parallel size\n"
    assert "set pipeline_model_parallel_size to 2" in cause(settings + FRAME + error).fix.text


MISSING = f"{FRAME}ModuleNotFoundError: No module named 'torch'\n"
TOO_OLD = (
    "/w/C++17.h:13:2: error: #error \"You're trying to build PyTorch with a too old version of GCC. We need GCC 9 or "
    'later."\n'
)
ORTE = "-----\nORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"slurm_script: line 9: /w/venv/bin/activate: No such file or directory\n{MISSING}", "/w/venv"),
        (f"EnvironmentNameNotFound: Could not find conda environment: llm\n{MISSING}", "no llm here"),
        (f"ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'py/3'\n{MISSING}", "no module py/3"),
        (
            "orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared object file: No such "
            f"file or directory\n{ORTE}",
            "--prefix",
        ),
        (
            f"{TOO_OLD}{FRAME}RuntimeError: Error building extension 'fused_adam'\n{FRAME}ImportError: /c/fused_adam/"
            "fused_adam.so: cannot open shared object file: No such file or directory\n",
            "gcc",
        ),
    ],
)
def test_what_failed_before_is_what_is_to_be_mended(text: str, words: str) -> None:
    found = cause(text)
    assert words in found.fix.text
    assert "pip install 'torch'" not in found.fix.text


def test_a_process_that_was_started_is_heard_behind_the_exception_that_announces_it() -> None:
    log = (
        f"{FRAME}Exception: \n\n-- Process 2 terminated with the following error:\n"
        'Traceback (most recent call last):\n  File "/w/fit.py", line 31, in worker\n    load()\n'
        "ValueError: the split of validation is empty\n"
    )
    assert "the split of validation is empty" in cause(log).summary


def test_what_a_backend_raised_is_told_and_not_how_to_do_without_it() -> None:
    log = (
        f"{FRAME}torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nImportError: cannot import name "
        "'triton_key' from 'triton.compiler.compiler' (/opt/v/lib/python3.11/site-packages/triton/compiler/compiler.py)"
        "\n\nYou can suppress this exception and fall back to eager by setting:\n    import torch._dynamo\n"
    )
    assert "triton" in cause(log).fix.text
    assert "suppress" not in cause(log).fix.text


def test_pythons_own_library_is_none_of_the_programs_on_windows_either() -> None:
    log = (
        'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    act()\n'
        '  File "D:\\envs\\mm\\lib\\os.py", line 675, in __getitem__\n    raise KeyError(key) from None\n'
        "KeyError: 'RANK'\n"
    )
    assert "torchrun" in cause(log).fix.text
    assert "os.py" not in cause(log).fix.text
