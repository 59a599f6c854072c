"""Ends that launchers, shells, schedulers and containers tell, one line each: the class that they show."""

import io

import pytest

from gpudoctor.explain.advised import advice
from gpudoctor.explain.explain import explain

SAYS = {
    "fish: Job 1, 'python train.py' terminated by signal SIGSEGV (Address boundary error)": "signal",
    "trainer-1 exited with code 137": "host-memory",
    "srun: error: gn12: task 3: Exited with exit code 139": "signal",
    "[gn12:03110] Signal: Segmentation fault (11)": "signal",
    "[gn12:3110 :0:3142] Caught signal 7 (Bus error: nonexistent physical address)": "shared-memory",
    "terminate called after throwing an instance of 'std::system_error'\n"
    "  what():  Resource temporarily unavailable": "limits",
    "qsub: Job violates queue and/or server resource limits": "scheduler",
    "gpuq: No such queue. Job not submitted.": "scheduler",
    'Unable to run job: job rejected: the requested parallel environment "mpi" does not exist.\nExiting.': "scheduler",
    "n1:1:1 [0] NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 8 vs 16, nroots 1 vs 1, "
    "iroot 0 vs 0": "launcher",
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
    "before calling NumCudaDevices() that might have already set an error? Error 999: unknown error (Triggered "
    "internally at ../c10/cuda/CUDAFunctions.cpp:109.)\nRuntimeError: No CUDA GPUs are available": "driver",
    "nvidia-container-cli.real: container error: cgroup subsystem devices not found: unknown.": "driver",
    "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/5/merged/usr/lib/x/"
    "libnvidia-ml.so.1: file exists: unknown.": "image",
}


@pytest.mark.parametrize("line", SAYS)
def test_the_class_of_an_end(line: str) -> None:
    said = explain(["-"], stdin=io.BytesIO(f"{line}\n".encode()))
    assert said.kind == SAYS[line], said
    assert said.exit_status == 1
    assert said.causes[0].fix.text


def test_the_sum_of_a_trainer_is_a_good_end() -> None:
    """transformers' Trainer writes loss and epoch beside it, as in each of its steps."""
    steps = "{'loss': 1.21, 'learning_rate': 1e-05, 'epoch': 1.98}\n"
    total = "{'train_runtime': 812.4, 'train_samples_per_second': 9.2, 'train_loss': 1.4, 'epoch': 2.0}\n"
    log = steps + total + "100%|####| 740/740 [13:32<00:00,  1.10s/it]\n"
    said = explain(["-"], stdin=io.BytesIO(log.encode()))
    assert (said.course, said.exit_status) == ("ended well", 0)
    lost = explain(["-"], stdin=io.BytesIO(f"{log}OSError: [Errno 28] No space left on device\n".encode()))
    assert lost.exit_status == 1 and lost.causes[0].cause == "disk-full"


def test_a_time_limit_speaks_of_no_failure_before_it() -> None:
    line = "slurmstepd: error: *** JOB 5512 ON gpu-07 CANCELLED AT 2025-04-01T06:00:21 DUE TO TIME LIMIT ***\n"
    said = explain(["-"], stdin=io.BytesIO(line.encode()))
    assert said.unknown == (
        "SLURM ended JOB 5512 at its time limit; whether anything failed before it, these logs do not say"
    )


TOLD_TO_END = """Traceback (most recent call last):
  File "/w/fit.py", line 20, in <module>
    trainer.fit(model)
{raised}
"""


@pytest.mark.parametrize(
    ("raised", "kind", "told"),
    [
        ("lightning.pytorch.utilities.exceptions.SIGTERMException", "signal", "told to end by SIGTERM"),
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 880 got signal: 2",
            "user-interrupt",
            "interrupted at /w/fit.py:20 by SIGINT",
        ),
        ("KeyboardInterrupt", "user-interrupt", "interrupted at /w/fit.py:20 by SIGINT"),
    ],
)
def test_what_a_handler_of_a_signal_raises_is_no_error_of_the_program(raised: str, kind: str, told: str) -> None:
    log = TOLD_TO_END.format(raised=raised)
    said = explain(["-"], stdin=io.BytesIO(log.encode()))
    assert (said.causes, said.kind) == ((), kind)
    assert said.unknown is not None and said.unknown.startswith(told)
    preempted = "slurmstepd: error: *** JOB 5511 ON n3 CANCELLED AT 2025-01-09T12:00:00 DUE TO PREEMPTION ***\n"
    said = explain(["-"], stdin=io.BytesIO(f"{preempted}{log}".encode()))
    assert [cause.cause for cause in said.causes] == ["preempted"]


@pytest.mark.parametrize(
    ("host", "cause"),
    [("huggingface.co", "download-failed"), ("0.0.0.0", "program-error"), ("trainer-0", "program-error")],
)
def test_a_server_of_the_job_itself_is_no_download(host: str, cause: str) -> None:
    refused = "Failed to establish a new connection: [Errno 111] Connection refused"
    line = (
        f"requests.exceptions.ConnectionError: HTTPConnectionPool(host='{host}', port=8000): Max retries exceeded with "
    )
    said = explain(
        ["-"], stdin=io.BytesIO(f"{line}url: /health/ (Caused by NewConnectionError('{refused}'))\n".encode())
    )
    assert said.causes[0].cause == cause, said


def test_who_interrupts_a_program_is_told() -> None:
    text = 'Traceback (most recent call last):\n  File "t.py", line 20, in <module>\n    wait()\nKeyboardInterrupt\n'
    said = explain(["-"], stdin=io.BytesIO(text.encode()))
    assert (
        said.unknown
        == "interrupted at t.py:20 by SIGINT: by Ctrl-C, or by who passed it on; why, these logs do not say"
    )
    assert said.kind == "user-interrupt"


def test_advice_that_ends_with_a_colon_takes_the_line_below() -> None:
    assert (
        advice("It failed. Please run the following:\n\n  python -m tool\n")
        == "Please run the following: python -m tool"
    )
    assert advice("It failed. Please run the following:") == "Please run the following"


def test_a_status_that_an_unranked_line_explains_is_no_second_cause() -> None:
    log = (
        "usage: fit.py [-h] [--epochs EPOCHS]\n"
        "fit.py: error: unrecognized arguments: --local_rank=0\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) local_rank: 0 (pid: 6396) of binary: "
        "/opt/venv/bin/python\n"
    )
    said = explain(["-"], stdin=io.BytesIO(log.encode()))
    assert [cause.cause for cause in said.causes] == ["program-error"]
