"""What speakers say at a log's end, ends that somebody tells by a status, notebooks' tracebacks, and fixes that name
what has to be installed or where room has to be made."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from tests.corpus import families

JOB = "epoch 0 step 100 loss 3.1\nepoch 0 step 200 loss 2.9\n"


def said(log: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log.encode()))


@pytest.mark.parametrize(
    ("line", "class_", "fix"),
    [
        ("Error: unknown flag: --gpu\nSee 'ctl --help' for usage.", "argument", "--gpu"),
        ("fatal: Authentication failed for 'https://git.lab.example/a.git/'", "permission", "token"),
        ("gzip: train.jsonl.gz: not in gzip format", "data", "checksum"),
        ("An error occurred (NoSuchKey) when calling the GetObject operation: no such key", "file-missing", "bucket"),
    ],
)
def test_a_line_that_a_speaker_wrote_is_the_cause_where_nothing_follows(line: str, class_: str, fix: str) -> None:
    answer = said(f"{JOB}{line}\n")
    assert answer.kind == class_ and answer.exit_status == 1 and fix in answer.causes[0].fix.text


def test_it_is_none_where_the_job_goes_on() -> None:
    more = "".join(f"epoch 0 step {step}00 loss 2.{9 - step}\n" for step in range(3, 8))
    assert said(f"{JOB}Error: unknown flag: --gpu\n{more}").exit_status == 0


def test_what_a_message_proposes_stands_in_the_fix() -> None:
    answer = said("error: unexpected argument '--ports' found\n\n  tip: a similar argument exists: '--port'\n")
    assert "--port'" in answer.causes[0].fix.text or "--ports" in answer.causes[0].summary


@pytest.mark.parametrize(
    ("line", "decided", "class_"),
    [
        ("ERROR:launcher:Rank 2 crashed with exit code -7.", True, "shared-memory"),
        ("Worker 3 exited with code -11", True, "signal"),
        ("step failed: container exited with status 137", False, "host-memory"),
        ("ERROR: task 5 failed with exit code 1", False, "other"),
    ],
)
def test_an_end_that_somebody_tells(line: str, decided: bool, class_: str) -> None:
    answer = said(f"{JOB}{line}\n")
    assert answer.exit_status == 1 and answer.kind == class_
    assert (answer.unknown is None) is decided


@pytest.mark.parametrize("line", ["worker 2 exited with code 0", "the request failed with status code 503"])
def test_what_is_no_bad_end_of_a_process(line: str) -> None:
    assert not said(f"{JOB}{line}\n").causes


def test_a_traceback_of_a_notebook() -> None:
    answer = said(
        "---------------------------------------------------------------------------\n"
        "KeyError                                  Traceback (most recent call last)\n"
        "Cell In[7], line 3\n      1 trainer = make()\n----> 3 trainer.fit()\n\n"
        "File ~/work/fit.py:88, in fit(self, loader)\n     87 batch = next(it)\n---> 88 x = batch['pixel']\n\n"
        "KeyError: 'pixel'\n"
    )
    assert "~/work/fit.py:88" in answer.causes[0].summary and answer.causes[0].evidence[0].line == 11


@pytest.mark.thorough
def test_undecided_answers_tell_a_restart_only_where_it_does_not_help() -> None:
    restarts = {one.restart for one in (said(each.text) for each in families.messages()) if one.unknown}
    assert restarts <= {"after a fix", "not decided"}


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("ModuleNotFoundError: No module named 'cv2'", "opencv-python"),
        ("ModuleNotFoundError: No module named 'utils.misc'", "PYTHONPATH"),
        ("ModuleNotFoundError: No module named 'colossalai._C'", "built without that extension"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x1'", "TMPDIR"),
        ("ImportError: /v/lib/python3.11/site-packages/apex/a.so: undefined symbol: _ZN3", "apex was built"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "gloo"),
    ],
)
def test_the_fix_names_it(line: str, fix: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/w/t.py", line 9, in <module>\n    run()\n{line}\n'
    assert fix in said(log).causes[0].fix.text


def test_one_line_as_wide_as_a_terminal_is_no_fold() -> None:
    wide = "srun: job 88121 was submitted to the partition of large nodes and waits for room".ljust(80, "m")
    log = f"{wide}\nsrun: error: gpu-3: task 3: Segmentation fault\n"
    assert len(wide) == 80 and said(log).causes[0].evidence[0].line == 2


@pytest.mark.thorough
def test_most_of_what_is_only_scored_is_classed() -> None:
    """docs/measured/explain.md has the history."""
    these = [each for each in families.said() if each.shape == "at a log's end"]
    for half, share in (("tune", 0.9), ("keep", 0.73)):
        scored = [each for each in these if each.message.half == half]
        assert sum(each.right for each in scored) >= share * len(scored), half
