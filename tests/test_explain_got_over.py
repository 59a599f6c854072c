"""A fault that has come right, as a later line of whoever told it tells, is not how the job ended."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

EVENTS = "  Type     Reason   Age   From     Message\n"
WAITED = "  Warning  FailedScheduling  9m  default-scheduler  0/4 nodes are available: 4 Insufficient nvidia.com/gpu.\n"
NO_IMAGE = (
    '  Warning  Failed   5m  kubelet  Failed to pull image "reg/fit:2": rpc error: code = Unknown desc = timeout\n'
)
STARTED = "  Normal   Started  2m  kubelet  Started container fit\n"
NO_DATA = "FileNotFoundError: [Errno 2] No such file or directory: '/data/index.json'\n"
FAULT_31 = "[10.1] NVRM: Xid (PCI:0000:4e:00): 31, pid=912, name=python, MMU Fault\n"
STEPS = "".join(f"step {number} loss {9 - number / 10}\n" for number in range(10, 60, 10))
LIMIT = "slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2026-02-02T11:59:58 DUE TO TIME LIMIT ***\n"
MEMORY = "71220  fit  OUT_OF_ME+    0:125 00:00:21\n"
RUNS = "71231  fit    RUNNING      0:0 05:12:08\n"


def told(log: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log.encode()))


@pytest.mark.parametrize("fault", [WAITED, NO_IMAGE])
def test_a_pod_that_was_started_in_the_end(fault: str) -> None:
    answer = told(EVENTS + fault + STARTED)
    assert (answer.causes, answer.unknown, answer.course) == ((), None, "gets on")
    assert told(EVENTS + fault).causes


def test_another_pod_was_started() -> None:
    waits = "9m Warning FailedScheduling pod/b 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.\n"
    assert told(waits + "8m Normal Started pod/a Started container fit\n").causes[0].cause == "scheduler-refused"


def test_what_a_started_pod_died_of() -> None:
    assert told(EVENTS + WAITED + STARTED + NO_DATA).causes[0].kind == "file-missing"


def test_a_fault_that_many_steps_follow_is_not_why_the_time_was_up() -> None:
    answer = told(FAULT_31 + STEPS + LIMIT)
    assert answer.unknown and answer.causes[0].cause == "time-limit"
    assert told(FAULT_31 + LIMIT).causes[0].cause == "gpu-program-fault"


def test_a_job_that_was_handed_in_again() -> None:
    assert told(MEMORY).causes[0].kind == "host-memory"
    again = told(MEMORY + RUNS)
    assert not again.causes and again.unknown is None
    assert told(MEMORY + "71220.extern  extern  COMPLETED  0:0 00:00:21\n").causes[0].kind == "host-memory"


def test_trouble_of_no_known_kind_is_a_failure_only_where_a_log_ends_with_it() -> None:
    trouble = "Mar 04 01:07:44 st1 tessera[3011]: giving up on volume 7\n"
    assert told(trouble).unknown and not told(trouble).causes
    assert told("step 10 loss 2.1\nstep 20 loss 2.0\n" + trouble).unknown is None
    assert told(trouble + "mounted volume 8\n" * 5).unknown is None


def test_what_an_account_has_in_use_is_told_of_a_job_that_waits() -> None:
    row = "  3301  a100  ev-1  tk  PD  0:00  4  (QOSMaxGRESPerUser)\n"
    assert "jobs of this user have all the GPUs" in (told(row).unknown or "")
    assert told(row.replace("PerUser", "PerJob")).restart == "after a fix"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("GPUassert: an illegal instruction was encountered kern.cu 122", "illegal-access"),
        ("Cuda error: cudaErrorMpsClientTerminated", "driver"),
        ("RuntimeError: CUDA driver error: 719", "illegal-access"),
    ],
)
def test_an_error_of_cuda_by_text_name_or_number(line: str, kind: str) -> None:
    assert told(line + "\n").kind == kind
