"""TORCH_DISTRIBUTED_DEBUG=DETAIL: what each rank prints of itself is compared; what it prints of others may be garbage.

The lines have the form that torch 2.14.1 wrote in the lab (python -m tests.lab.torch_nccl --ways detail).
"""

import io
from pathlib import Path

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import LogCause

FLOATS = "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda)"
LIBRARY = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def printed(rank: int, own: str, other: int, its: str, line: int, function: str = "all_reduce") -> str:
    said = f"Rank {rank} is running collective: CollectiveFingerPrint({own}), but Rank {other} is running collective: "
    lines = (
        "Traceback (most recent call last):",
        f'  File "/home/mara/train.py", line {line}, in main',
        f"    dist.{function}(gradient)",
        f'  File "{LIBRARY}", line 3906, in {function}',
        "    work = group.allreduce([tensor], opts)",
        f"RuntimeError: Detected mismatch between collectives on ranks. {said}CollectiveFingerPrint({its})."
        "Collectives differ in the following aspects: \t Sequence number: 4vs 0  Op type: ",
    )
    return "".join(f"[rank{rank}]: {each}\n" for each in lines)


def tensor(number: int, operation: str, shape: str) -> str:
    return f"SequenceNumber={number}, OpType={operation}, TensorShape=[{shape}], {FLOATS}"


BARRIER = "SequenceNumber=4OpType=BARRIER"
GARBAGE = "SequenceNumber=0OpType=REDUCE"
SUM = tensor(4, "ALLREDUCE", "64")
ENDS: dict[str, tuple[str, str, tuple[int, ...], bool]] = {
    "a barrier meets gradients, and torch reads the barrier as something else": (
        printed(0, SUM, 1, GARBAGE, 21)
        + printed(1, BARRIER, 0, "SequenceNumber=0OpType=GATHER", 25, "barrier")
        + printed(2, SUM, 1, GARBAGE, 21),
        "rank-divergent-decision",
        (1,),
        False,
    ),
    "the same size in another order": (
        printed(0, tensor(6, "ALLREDUCE", "64"), 1, tensor(6, "BROADCAST", "64"), 11)
        + printed(1, tensor(6, "BROADCAST", "64"), 0, tensor(6, "ALLREDUCE", "64"), 15, "broadcast")
        + printed(2, tensor(6, "ALLREDUCE", "64"), 1, tensor(6, "BROADCAST", "64"), 11),
        "collective-order-mismatch",
        (1,),
        True,
    ),
    "sizes of one line": (
        printed(0, SUM, 1, tensor(4, "ALLREDUCE", "96"), 21)
        + printed(1, tensor(4, "ALLREDUCE", "96"), 0, SUM, 21)
        + printed(2, SUM, 1, tensor(4, "ALLREDUCE", "96"), 21),
        "shape-mismatch",
        (1,),
        True,
    ),
    "sizes of two lines": (
        printed(0, tensor(4, "ALLREDUCE", "8"), 1, SUM, 25)
        + printed(1, SUM, 0, tensor(4, "ALLREDUCE", "8"), 21)
        + printed(2, SUM, 0, tensor(4, "ALLREDUCE", "8"), 21),
        "rank0-only-collective",
        (0,),
        False,
    ),
    "one rank alone speaks, of another operation": (
        printed(0, SUM, 1, tensor(4, "BROADCAST", "64, 2"), 21),
        "collective-order-mismatch",
        (0,),
        False,
    ),
}


def first(text: str, folder: Path) -> LogCause:
    log = folder / "job.log"
    log.write_text(text)
    return explain([str(log)], stdin=io.BytesIO()).causes[0]


@pytest.mark.parametrize("name", ENDS)
def test_descriptions_of_the_ranks_are_compared(name: str, tmp_path: Path) -> None:
    text, cause, ranks, claimed = ENDS[name]
    found = first(text, tmp_path)
    assert (found.cause, found.ranks, found.confidence >= 0.5) == (cause, ranks, claimed)


def test_what_torch_misread_is_not_repeated(tmp_path: Path) -> None:
    text = ENDS["a barrier meets gradients, and torch reads the barrier as something else"][0]
    summary = first(text, tmp_path).summary
    assert "barrier number 4 at /home/mara/train.py:25" in summary
    assert "reduce number 0" not in summary and "gather" not in summary
