"""A program dies of one exception: what it wrote of others before, and went on, is not its end."""

import io

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

OWN = """Traceback (most recent call last):
  File "/w/t.py", line 61, in <module>
    main()
  File "/w/t.py", line 44, in main
    y = rows["answer"]
KeyError: 'answer'
"""
OPTIONAL = """A matching Triton is not available, some optimizations will not be enabled
Traceback (most recent call last):
  File "/env/lib/python3.10/site-packages/xformers/__init__.py", line 57, in _is_triton_available
    import triton  # noqa
ModuleNotFoundError: No module named 'triton'
"""
LOGGED = """2024-05-01 10:00:01 ERROR tracker: upload failed, will try later
Traceback (most recent call last):
  File "/env/lib/python3.10/site-packages/requests/adapters.py", line 501, in send
    raise ConnectionError(err, request=request)
requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection'))
"""
TRIED = "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/x\n"
GOES_ON = """2024-05-01 10:00:02 INFO building model
2024-05-01 10:00:09 INFO model has 1.2 B parameters
"""
DISK = "OSError: [Errno 28] No space left on device\n"


def told(log: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log.encode()))


@pytest.mark.parametrize("fault", [OPTIONAL, LOGGED, TRIED])
def test_what_was_caught_is_not_the_end(fault: str) -> None:
    first = told(fault + GOES_ON + OWN).causes[0]
    assert "KeyError" in first.summary
    assert first.confidence > 0.6


@pytest.mark.parametrize("fault", [OPTIONAL, LOGGED])
def test_what_nothing_stands_behind_is_still_told(fault: str) -> None:
    assert told(fault).causes
    assert len(told(fault + OWN).causes) == 2


def test_a_shell_that_goes_on_to_start_python_has_not_ended() -> None:
    before = "/tmp/run.sh: line 3: module: command not found\n"
    assert "KeyError" in told(before + OWN).causes[0].summary
    lacking = OWN.replace("KeyError: 'answer'", "ModuleNotFoundError: No module named 'apex'")
    assert "calls module" in told(before + lacking).causes[0].summary


def test_a_lookup_that_is_refused_in_other_words_is_told_in_these() -> None:
    log = """Traceback (most recent call last):
  File "/p/opt.py", line 12, in build
    return REGISTRY[name]
KeyError: 'lion8'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/p/train.py", line 31, in <module>
    opt = build(cfg.opt)
  File "/p/opt.py", line 14, in build
    raise ConfigError(f"no optimizer named {name}; known: adamw, sgd")
opt.ConfigError: no optimizer named lion8; known: adamw, sgd
"""
    assert "no optimizer named" in told(log).causes[0].summary
    elsewhere = log.replace('  File "/p/opt.py", line 14, in build', '  File "/p/train.py", line 34, in main')
    assert "KeyError" in told(elsewhere).causes[0].summary


def test_what_came_of_an_exception_that_is_cut_off_is_no_cause() -> None:
    log = f"    f.write(blob)\n\nDuring handling of the above exception, another exception occurred:\n\n{OWN}"
    assert told(log).unknown
    assert (
        "disk"
        in told(f'Traceback (most recent call last):\n  File "/p/s.py", line 9, in dump\n{DISK}' + log[18:])
        .causes[0]
        .cause
    )


def test_a_line_that_says_itself_that_it_was_handled_accuses_nobody() -> None:
    assert not told("WARNING oom_guard: caught CUDA out of memory, halving the batch to 16\n").causes


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards:  33%|###3      | 1/3 [00:48<01:37, 48.6s/it]",
        "Restoring states from the checkpoint path at logs/best.ckpt",
        "received SIGTERM, saving checkpoint",
        "[W socket.cpp:697] [c10d] The client socket cannot be initialized to connect to [n]:29500 (errno: 97).",
    ],
)
def test_a_line_of_a_log_is_no_message_that_somebody_typed(line: str) -> None:
    assert not told(line).causes


def test_a_line_that_weighs_what_may_be_accuses_nobody_surely() -> None:
    folded = "holding the GIL inside a CUDA api (for example, CudaEventDestroy), or other deadlock-prone behaviors.\n"
    said = told(folded)
    assert not said.causes or said.causes[0].confidence < 0.5
    assert (
        told("rank 4: MainThread is holding the GIL and is stuck in cudaEventSynchronize\n").causes[0].confidence > 0.6
    )


def test_ranks_that_ended_without_a_word_are_no_surer_for_being_many() -> None:
    rows = "".join(
        "E0611 10:12:43.53 4021 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) "
        f"local_rank: {rank} (pid: {4000 + rank}) of binary: /env/bin/python\n"
        for rank in range(4)
    )
    said = told(rows)
    assert said.unknown
    assert said.causes[0].confidence < 0.5


GRADER = """step 11 reward 0.2
candidate failed:
Traceback (most recent call last):
  File "<string>", line 9, in <module>
IndexError: list index out of range
"""
SERVED = """INFO 05-20 09:00:11 [loggers.py:123] Engine 000: Avg prompt throughput: 811.2 tokens/s
ERROR 05-20 09:00:14 [serving.py:220] Traceback (most recent call last):
ERROR 05-20 09:00:14 [serving.py:220]   File "/opt/v/serving.py", line 512, in check
ERROR 05-20 09:00:14 [serving.py:220] ValueError: maximum context length is 32768 tokens
INFO:     10.2.0.8:51212 - "POST /v1/completions HTTP/1.1" 400 Bad Request
"""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("log", "ends"),
    [
        (GRADER, False),
        (GRADER + "step 12 reward 0.3\n", True),
        # a bar is drawn once more when its program dies
        (GRADER + " 10%|#    | 12/100 [00:10<01:20,  1.1it/s]\n", False),
        (GRADER + "  0%|     | 0/100 [00:10<?, ?it/s]\n", False),
        # of several ranks another may do the step
        (GRADER.replace("Traceback", "[rank1]: Traceback") + "[rank0]: step 12 reward 0.3\n", False),
        # both streams of a program, put together by somebody else: what it had said before stands behind
        (GRADER.replace("step 11 reward 0.2\n", "") + "09:12:44 round 4 lr 2e-3\n09:12:44 round 4 tau 0.5\n", False),
        (SERVED, False),
        (SERVED + 'INFO:     10.2.0.9:40112 - "POST /v1/completions HTTP/1.1" 200 OK\n', True),
        (SERVED + 'INFO:     10.2.0.9:40112 - "GET /health HTTP/1.1" 200 OK\n', False),
        (
            "start\nE0000 00:00:17.102 cuda_blas.cc:1418] Unable to register factory\nmodel built\nstep 1 loss 3\n",
            True,
        ),
    ],
)
def test_a_step_behind_what_one_process_told(log: str, ends: bool) -> None:
    """A process that dies of what it raised does no step more."""
    answer = explain((), stdin=io.BytesIO(), texts=(log,))
    assert (not answer.causes and answer.unknown is None) is ends


def test_communicators_that_are_aborted_at_the_end_accuse_nobody() -> None:
    """torch's process group does so where the program does not destroy it."""
    steps = "".join(f"0: step {number}: loss {3 / number:.3f}\n" for number in range(1, 40))
    ends = "".join(
        f"{rank}: n4:2101:2101 [{rank}] NCCL INFO comm 0x7f12 rank {rank} nranks 2 cudaDev {rank} busId c{rank}000 -"
        " Abort COMPLETE\n"
        for rank in (1, 0)
    )
    answer = told(steps + ends + "0: training took 1811 s\n")
    assert not answer.causes and not answer.unknown


@pytest.mark.parametrize(
    "log",
    [
        "".join(
            f':::MLLOG {{"key": "eval_accuracy", "value": 0.{n}, "metadata": {{"epoch_num": {n}}}}}\n'
            for n in range(10, 40)
        ),
        ':::MLLOG {"key": "run_stop", "value": null, "metadata": {"file": "t.py", "lineno": 9, "status": "success"}}\n',
    ],
)
def test_numbers_in_json_are_progress_and_mlperf_tells_a_good_end(log: str) -> None:
    assert told(log).exit_status == 0


def test_a_run_that_mlperf_calls_aborted_is_none_that_went_well() -> None:
    assert told(':::MLLOG {"key": "run_stop", "value": null, "metadata": {"status": "aborted"}}\n').exit_status != 0


@pytest.mark.parametrize(
    "words", ["done\n", "finished\n", "\nreal\t0m56.895s\nuser\t0m11.272s\ndone\n", "Job finished.\n"]
)
def test_what_a_script_says_behind_its_dead_program_is_no_good_end(words: str) -> None:
    answer = told("loading data\n" + OWN + words)
    assert answer.causes[0].kind == "data" or "KeyError" in answer.causes[0].summary


def test_a_program_that_is_started_again_and_gets_on_has_ended_well() -> None:
    steps = "".join(f"step {n} loss {3 - n / 100:.3f}\n" for n in range(1, 40))
    assert told("loading data\n" + OWN + "starting once more\n" + steps + "done\n").exit_status == 0


def test_what_rays_record_calls_safe_to_ignore_ended_nothing() -> None:
    by = "(TrainController pid=4129, ip=10.4.0.2) "
    lines = (
        "Failed to send resource request for train-1. If this happens transiently, it's safe to ignore this error.",
        "Traceback (most recent call last):",
        '  File "/e/site-packages/ray/train/v2/client.py", line 58, in send_resource_request',
        "    ray.get(",
        "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",
        "Attempting to start training worker group of size 16 with the following resources: [{'CPU': 1}] * 16",
    )
    answer = told("".join(f"{by}{line}\n" for line in lines))
    assert not answer.causes and answer.exit_status == 3


def test_what_ray_puts_behind_a_line_that_it_did_not_repeat_is_none_of_its_words() -> None:
    more = " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see https://x)"
    log = "".join(
        f"(RayTrainWorker pid=41{rank}) {line}\x1b[32m [repeated 3x across cluster]{more * rank}\x1b[0m\n"
        for rank in range(2)
        for line in OWN.splitlines()
    )
    cause = told(log).causes[0]
    assert "KeyError: 'answer' at /w/t.py:44 in main" in cause.summary and "DEDUP" not in cause.fix.text
