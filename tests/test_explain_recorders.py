"""Logs of a time-out, read beside the flight recorders that torch wrote then; lines and dumps in the form of 2.14.1."""

import io
import json
import os
import time
from pathlib import Path

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import LogCause
from gpudoctor.left import program_of
from gpudoctor.read.job import recorder

pytestmark = pytest.mark.thorough  # files are read in a child
NUMEL = 4096


def waited(rank: int, number: int = 5) -> str:
    head = f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp"
    return (
        f"{head}:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={number}, OpType=ALLREDUCE, NumelIn={NUMEL}, NumelOut={NUMEL}, Timeout(ms)=100000) ran for 100008 "
        "milliseconds before timing out.\n"
    )


def dump(rank: int, kind: str, number: int = 5) -> str:
    def entry(sequence: int, state: str, dtype: str) -> dict[str, object]:
        return {
            "collective_seq_id": sequence,
            "p2p_seq_id": 0,
            "record_id": sequence,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1_760_000_000_000_000_000 + sequence,
            "input_sizes": [[NUMEL]],
            "output_sizes": [[NUMEL]],
            "input_dtypes": [dtype],
            "output_dtypes": [dtype],
            "state": state,
            "retired": False,
            "is_p2p": False,
            "frames": [],
        }

    return json.dumps(
        {
            "version": "2.10",
            "rank": rank,
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
            "entries": [entry(number - 1, "completed", "Float"), entry(number, "scheduled", kind)],
        }
    )


def told(folder: Path, stem: str, *, number: int = 5, log: str = "") -> LogCause | None:
    """What is said first of a log of three ranks, of which the second has come with another type by its recorder."""
    for rank, kind in enumerate(("Float", "BFloat16", "Float")):
        path = folder / f"{stem}{rank}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(dump(rank, kind, number))
    (folder / "job.log").write_text(log or "".join(map(waited, range(3))))
    paths = [str(folder / "job.log")]
    causes = explain(paths, stdin=io.BytesIO(), program=program_of(paths)).causes
    return causes[0] if causes else None


@pytest.mark.parametrize("stem", ["dumps/nccl_trace_rank_", "comm_lib_trace_rank_"])
def test_beside_the_log(tmp_path: Path, stem: str) -> None:
    cause = told(tmp_path, stem)

    assert cause is not None
    assert (cause.cause, cause.ranks) == ("shape-mismatch", (1,))
    assert cause.confidence >= 0.65


def test_where_torch_was_told_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "traces/of_rank_"))

    cause = told(tmp_path, "traces/of_rank_")

    assert cause is not None
    assert cause.cause == "shape-mismatch"


def test_those_of_another_moment_tell_nothing(tmp_path: Path) -> None:
    """Other collectives are open in them than in the log."""
    cause = told(tmp_path, "nccl_trace_rank_", number=9)

    assert cause is None or cause.cause != "shape-mismatch"


def test_those_of_an_earlier_day_tell_nothing(tmp_path: Path) -> None:
    told(tmp_path, "nccl_trace_rank_")
    for rank in range(3):
        os.utime(tmp_path / f"nccl_trace_rank_{rank}", (time.time() - 86_400,) * 2)
    paths = [str(tmp_path / "job.log")]

    causes = explain(paths, stdin=io.BytesIO(), program=program_of(paths)).causes

    assert "shape-mismatch" not in [cause.cause for cause in causes if cause.confidence >= 0.5]
    assert causes[0].confidence < 0.5


def test_a_larger_world_has_written_them(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_7").write_text(dump(7, "Float"))

    cause = told(tmp_path, "nccl_trace_rank_")

    assert cause is None or cause.cause != "shape-mismatch"


def test_names_that_begin_so(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"trace_rank_{rank}").write_text(dump(rank, "Float"))
    for rank in range(5):
        (tmp_path / f"other_{rank}").write_text(dump(rank, "Float"))

    assert [each.rank for each in recorder.of_folder(tmp_path / "trace_rank_")[0]] == [0, 1]


PROGRAM = """\
import queue
import torch.distributed as dist


def main():
    ready = queue.Queue()
    for step in range(1000):
        dist.all_reduce(gradient)
        batch = prepare(ready)


def prepare(ready):
    return ready.get().cuda()


main()
"""
REDUCES, MAIN = 8, 16


@pytest.mark.parametrize(
    ("waits", "cause"),
    [
        ("ready.get().cuda()", "queue-wait"),
        ("[sum(row) for row in rows]\n    for row in rows:\n        row.sort()", "slow-rank-timeout"),
        ("ready.get() + model(batch)", ""),  # which of the two it was, is not told
        ("batch.cuda()", ""),
    ],
)
def test_what_the_program_calls_behind_a_ranks_last_collective(tmp_path: Path, waits: str, cause: str) -> None:
    """Its own words need not tell where it was: most programs let the first rank alone speak."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("return ready.get().cuda()", f"value = {waits}"))
    os.utime(script, (time.time() - 3600,) * 2)
    frames = [
        {"name": "main", "filename": str(script), "line": REDUCES},
        {"name": "<module>", "filename": str(script), "line": MAIN},
    ]
    for rank in range(3):
        held = json.loads(dump(rank, "Float"))
        held["entries"] = [entry | {"frames": frames} for entry in held["entries"][: 1 if rank == 1 else 2]]
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(held))
    (tmp_path / "job.log").write_text(waited(0) + waited(2) + "rank 1 of 3 is there\n")
    paths = [str(tmp_path / "job.log")]

    causes = explain(paths, stdin=io.BytesIO(), program=program_of(paths)).causes

    first = causes[0]
    if cause:
        assert (first.cause, first.ranks, first.confidence) == (cause, (1,), 0.65)
        assert "in line 8 was the last" in first.summary
    else:
        assert first.confidence < 0.5
