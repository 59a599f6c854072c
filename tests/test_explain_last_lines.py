"""Last lines that no table knows: that their writers mark as errors, what stands beside them, and the states that tools
print. A text that names a failure is never called healthy, and what is wrong with it is judged by the line's shape."""

import io

import pytest

from gpudoctor.explain.classes import judged_exception
from gpudoctor.explain.explain import explain
from gpudoctor.explain.guesses import without_guesses
from gpudoctor.explain.line_rows import judged_shape
from gpudoctor.explain.line_words import judged_line
from gpudoctor.explain.marked_lines import is_marked
from gpudoctor.explain.report import Explanation

JOB = "epoch 0 step 100 loss 3.1\nepoch 0 step 200 loss 2.9\n"


def said(log: str) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log.encode()))


@pytest.mark.parametrize(
    "line",
    [
        "[rank3]:[E605 11:02:41.551234567 feeder.cpp:88] the feeder gave up",
        "2026-06-05 11:02:41,552 - feeder - ERROR - the feeder gave up",
        "E0605 11:02:41.552311 4411 feeder.cc:88] the feeder gave up",
        'level=error ts=2026-06-05T11:02:41Z msg="the feeder gave up"',
        "FATAL: the feeder gave up",
    ],
)
def test_a_line_that_its_writer_marks_as_an_error(line: str) -> None:
    assert is_marked(line)
    answer = said(f"{JOB}{line}\n")
    assert answer.exit_status == 1 and "the feeder gave up" in str(answer)


@pytest.mark.parametrize(
    "line",
    [
        "ncclCommInitRank: no error",
        "INFO: no errors were found",
        "step 300 error 0.012",
        "2026-06-05 11:02:41,552 - feeder - INFO - error bars are written",
    ],
)
def test_a_line_that_its_writer_does_not(line: str) -> None:
    assert not is_marked(line)


@pytest.mark.parametrize(
    ("line", "class_"),
    [
        ("ERROR: write of shard 4 failed: No space left on device", "disk-full"),
        ("Error: cannot open /data/a.bin: Permission denied", "permission"),
        ("Error: unknown option --gpus-per-rank", "argument"),
        ("error: invalid image format: /lustre/img/train.tgz", "config"),
        ("sbatch: error: Batch script contains DOS line breaks (\\r\\n)", "config"),
        ("slurmstepd: error: error locking cgroup '/sys/fs/cgroup/x' : No such file or directory", "scheduler"),
        ("g4:41:45 [2] alloc.h:262 NCCL WARN Failed to CUDA calloc async 608 bytes", "gpu-memory"),
        ('g4:41:45 [2] tuning.cc:131 NCCL WARN Unrecognized element token "Rig" when parsing', "nccl-setting"),
        ("g4:41:45 [2] nccl_net_ofi:88 NCCL WARN NET/OFI Send close message complete with error", "rdma"),
        ("fatal: unable to look up lab.example (Name or service not known)", "name-resolution"),
    ],
)
def test_a_line_is_of_a_class_by_its_shape(line: str, class_: str) -> None:
    judged = judged_line(line) or judged_shape(line)
    assert judged is not None and judged.kind == class_


def test_the_command_that_an_error_answers_is_shown() -> None:
    answer = said("$ ib_write_bw -d mlx5_9 gpu-11\nIB device mlx5_9 not found\n")
    assert answer.exit_status == 1 and "ib_write_bw" in str(answer)


@pytest.mark.parametrize(
    ("text", "class_"),
    [
        (
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ntrain        up   infinite      2  down* gpu-[3-4]\n",
            "node-lost",
        ),
        ("Filesystem  Size  Used Avail Use% Mounted on\n/dev/md0    7.0T  7.0T    0  100% /scratch\n", "disk-full"),
    ],
)
def test_a_state_that_stops_a_job_is_told(text: str, class_: str) -> None:
    answer = said(text)
    assert answer.exit_status == 1 and answer.kind == class_


@pytest.mark.parametrize(
    "text",
    [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ntrain        up   infinite      2  idle gpu-[3-4]\n",
        "Filesystem  Size  Used Avail Use% Mounted on\n/dev/md0    7.0T  2.0T  5.0T   29% /scratch\n",
        f"{JOB}Filesystem  Size  Used Avail Use% Mounted on\n/dev/md0    7.0T  7.0T    0  100% /snap/core\n{JOB}",
    ],
)
def test_a_state_that_stops_none_is_not(text: str) -> None:
    assert said(text).exit_status != 1


def test_a_date_is_no_step_of_a_job() -> None:
    assert said("2026/06/05 15:34:10 fatal: open /etc/plugin.json: permission denied\n").exit_status == 1


def test_a_good_end_may_name_a_step() -> None:
    assert said("Training done: best accuracy 91.2 at epoch 27\nsome worker was stopped\n").exit_status == 0


def test_a_benchmark_whose_values_are_wrong_did_not_end_well() -> None:
    log = "# nThread 1 nGpus 8 minBytes 8\n# Out of bounds values : 12 FAILED\n# Avg bus bandwidth : 71\n"
    assert said(log).exit_status == 1


@pytest.mark.parametrize(
    ("raised", "class_"),
    [
        (("AttributeError", "'NoneType' object has no attribute 'shape'", "/w/train.py"), "argument"),
        (("AttributeError", "'Namespace' object has no attribute 'ep_size'", "/w/train.py"), "argument"),
        (("AttributeError", "module 'torch' has no attribute 'float9'", "/w/train.py"), "dependency-mismatch"),
        (("KeyError", "'layers.0.mlp.weight'", "/w/load.py"), "checkpoint"),
        (("KeyError", "'input_ids'", "/w/data.py", "__getitem__"), "data"),
        (("KeyError", "'lr'", "/w/train.py", "main", "main", "rate = cfg['optim']['lr']"), "config"),
        (("AssertionError", "", "/w/train.py", "main", "main", "assert args.heads % args.tp == 0"), "config"),
        (("AssertionError", "", "/w/train.py", "main", "main", "assert os.path.exists(path), path"), "file-missing"),
        (("AssertionError", "", "/w/train.py", "main", "main", "assert done"), "assertion"),
        (("ValueError", "The provided dataset should be a `StreamingDataset`."), "argument"),
        (("ValueError", "Paginator for operation does not exist: list_bucket"), "argument"),
        (("ValueError", "The local path /a/shards does not exist"), "file-missing"),
        (("AssertionError", "PyTorch >= 2.0.0 is required to enable this"), "dependency-mismatch"),
        (("ValueError", "Got inconsistent sequence length: 4 (img) vs. 3 (seg)"), "shape"),
    ],
)
def test_an_exception_is_of_a_class_by_its_shape(raised: tuple[str, ...], class_: str) -> None:
    assert judged_exception(*raised).kind == class_


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "UNAVAILABLE: Task /task:6 stopped. This indicates that it has failed, got preempted, or crashed.",
            "dead-rank",
        ),
        ("[E] engine: Assertion failed: it went wrong (/src/runner.cpp:180)", "assertion"),
        ("Run failed with error code NO_CAPACITY", "scheduler"),
        ("load: nrt_load status=4", "gpu-memory"),
        ("EJ0001: 2026-05-21-11:57:54.167.645 Failed to initialize the HCCP process.", "no-device"),
    ],
)
def test_what_is_told_goes_before_what_is_taken_to_be_possible(line: str, kind: str) -> None:
    judged = judged_line(line)
    assert judged is not None and judged.kind == kind


@pytest.mark.parametrize(
    ("type_name", "message", "kind"),
    [
        ("MlflowException", "INVALID_PARAMETER_VALUE: Changing param values is not allowed.", "argument"),
        ("google.api_core.exceptions.ResourceExhausted", "429 The quota metrics exceed quota limits: gpus", "quota"),
        ("RuntimeError", "Failed to connect to GCS. Please check `gcs_server.out`.", "rendezvous"),
        ("RuntimeError", "binary not found at /e/lib/site-packages/bnb/libbnb_cuda129.so", "dependency-mismatch"),
    ],
)
def test_an_exception_of_a_service_is_of_what_it_refuses(type_name: str, message: str, kind: str) -> None:
    assert judged_exception(type_name, message).kind == kind


def test_the_first_sentence_is_told() -> None:
    """However it says it; only sentences behind it can be guesses."""
    assert without_guesses("It may be that the disk is full.") == "It may be that the disk is full."
    assert without_guesses("Connection closed. This may be due to a crash.") == "Connection closed.."


def test_cmake_tells_below_what_is_wrong() -> None:
    log = "-- Detecting CXX - done\nCMake Error at CMakeLists.txt:38 (message):\n  Could not find the frontend at\n"
    log += "  /u/x/include.  Try running 'git submodule update --init'.\n\n-- Configuring incomplete\n"
    answer = said(log)
    assert "Could not find the frontend" in answer.causes[0].summary
    assert "git submodule update" in answer.causes[0].fix.text
