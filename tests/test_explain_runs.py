"""Runs that were appended to one log: the last one is answered, the others are told in a sentence."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

MODULES = "Loaded module: python3/3.11.4\nLoaded dependency [nccl/2.21.5]: cuda/12.4\n"
FAILS = 'Traceback (most recent call last):\n  File "fit.py", line {line}, in <module>\n    main()\n{error}\n'
STEPS = "".join(f"step {number}: loss {2 - number / 100:.3f}\n" for number in range(10, 90, 10))
CANCELLED = "slurmstepd: error: *** JOB {job} ON gpu-a03 CANCELLED AT 2026-03-02T04:05:06 ***\n"
REPORT = """
------------------------------------------------------------
Sender: LSF System <lsfadmin@gpu-a03>
Subject: Job {job}: <fit> in cluster <c> Exited

Exited with exit code 1.

The output (if any) is above this job summary.



PS:

Read file </e/fit.err> for stderr output of this job.

"""


def said(log: str) -> Explanation:
    return explain((), stdin=io.BytesIO(), texts=(log,))


@pytest.mark.parametrize(
    "start",
    [
        MODULES,
        "nohup: ignoring input\n",
        "W0503 22:51:04.443386 479966 torch/distributed/run.py:757] Setting OMP_NUM_THREADS environment variable for "
        "each process to be 1 in default\n",
        "[2026-03-02 04:05:06,270] [INFO] [runner.py:605:main] cmd = /opt/venv/bin/python -u -m "
        "deepspeed.launcher.launch fit.py\n",
    ],
)
def test_a_start_that_comes_again_after_a_failure_begins_another_run(start: str) -> None:
    first = start + FAILS.format(line=12, error="KeyError: 'width'")
    last = start + FAILS.format(line=30, error="ValueError: depth is not a number")
    answer = said(first + last)
    assert "ValueError" in answer.causes[0].summary
    assert answer.starts.startswith("2 runs in this log") and "KeyError at fit.py:12" in answer.starts
    gets_on = said(first + start + STEPS)
    assert gets_on.exit_status == 0 and "KeyError" in gets_on.starts


def test_a_node_that_starts_late_begins_no_run() -> None:
    # deepspeed's launch.py on each node, and pdsh in front of it: n2 came up when n1's ranks had failed
    def node(name: str, error: str) -> str:
        words = ("Setting CUDA_VISIBLE_DEVICES=0,1", "dist_world_size=16")
        first = "".join(f"[2026-03-02 04:05:06,776] [INFO] [launch.py:158:main] {word}\n" for word in words)
        return "".join(f"{name}: {line}\n" for line in (first + FAILS.format(line=12, error=error)).splitlines())

    missing = "ModuleNotFoundError: No module named 'webdataset'"
    answer = said(node("n1", missing) + node("n2", missing) + node("n3", missing))
    assert answer.starts == "" and answer.causes[0].cause == "library-missing"
    assert answer.causes[0].nodes == ("n1", "n2", "n3")
    # the same node's again is another run
    assert said(node("n1", missing) + node("n1", "KeyError: 'width'")).starts.startswith("2 runs in this log")


def test_a_job_that_was_cancelled_later_did_not_fail_as_one_before() -> None:
    failed = MODULES + FAILS.format(line=12, error="KeyError: 'width'")
    answer = said(failed + MODULES + STEPS + CANCELLED.format(job=88121))
    assert answer.causes[0].cause == "cancelled" and "run 1: KeyError" in answer.starts


def test_the_report_of_lsf_ends_a_run() -> None:
    failed = FAILS.format(line=12, error="KeyError: 'width'") + REPORT.format(job=71)
    answer = said(failed + FAILS.format(line=30, error="ValueError: depth is not a number") + REPORT.format(job=72))
    assert "ValueError" in answer.causes[0].summary and "2 runs" in answer.starts


def test_a_program_that_no_longer_compiles_was_edited_in_between() -> None:
    refused = '  File "fit.py", line 31\n    lr=3e-4,,\n            ^\nSyntaxError: invalid syntax\n'
    answer = said(FAILS.format(line=12, error="KeyError: 'width'") + refused)
    assert "SyntaxError" in answer.causes[0].summary and "KeyError" in answer.starts


@pytest.mark.parametrize(
    "log",
    [
        # both ranks write their first lines before one fails, and the other one's come once more with its end
        MODULES + MODULES + FAILS.format(line=12, error="KeyError: 'width'") + MODULES,
        # nothing is told of the later start
        MODULES + FAILS.format(line=12, error="KeyError: 'width'") + MODULES,
        # the last of a job's own lines, not of another job
        FAILS.format(line=12, error="KeyError: 'width'") + REPORT.format(job=71),
    ],
)
def test_what_is_no_other_run_takes_nothing_away(log: str) -> None:
    answer = said(log)
    assert "KeyError" in answer.causes[0].summary and not answer.starts


def test_what_nccl_tells_of_ports_is_no_progress() -> None:
    """Of the rank that found some, behind the one that found none: the job did not get on, nor begin again (nodes of
    unlike HCAs in tests/lab/nccl/unlike.py)."""
    fails = "n1:71:71 [0] plugin/net.cc:388 (ncclNetInit) NCCL WARN Failed to initialize any NET plugin\n"
    ports = "".join(
        f"n1:70:70 [0] NCCL INFO NET/IB: [{port}] mlx5_{port}:uverbs{port}:1/IB speed=400000 context=0x5 "
        f"pciPath=/sys/devices/pci0000:{port}8/0000:{port}8:01.0/0000:{port}9:00.0 ar=1\n"
        for port in range(1, 5)
    )
    answer = said("n1:71:71 [0] NCCL INFO NET/IB : No device found.\n" + fails + ports)
    assert answer.causes and not answer.well
