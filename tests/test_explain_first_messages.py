"""Two ranks of which one begins to talk to the other (explain/first_messages.py), in the lines of torch 2.14.1."""

from pathlib import Path

import pytest

from tests.test_explain_aborted import C10D, end, explained


def waited(rank: int, number: int, completed: int) -> str:
    head = f"[rank{rank}]:[E1128 05:08:02.9{rank} ProcessGroupNCCL.cpp"
    return (
        f"{head}:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={number}, OpType=RECV, NumelIn=64, NumelOut=64, Timeout(ms)=20000) ran for 20012 milliseconds before "
        "timing out.\n"
        f"{head}:2390] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: "
        f"{number} PG status: last enqueued work: {number}, last started work: -1 (), last completed work: {completed}"
        f"\n{head}:785] Stack trace of the failed collective: \n#0 recv from {C10D}:3430\n"
        "#1 main from /home/m/train.py:26\n\n"
    )


def begins(key: str) -> str:
    lines = (
        "Traceback (most recent call last):",
        '  File "/home/m/train.py", line 28, in main',
        "    dist.send(hidden, before[rank])",
        f'  File "{C10D}", line 3286, in isend',
        "    return group.send([tensor], group_dst, tag)",
        "torch.distributed.DistBackendError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
        f"via c10d key-value store by key '{key}', but store->get('{key}') got error: wait timeout after 20000ms, "
        f"keys: /default_pg/0//cuda//{key}",
    )
    return "".join(f"[rank2]: {line}\n" for line in lines)


STEPS = "".join(f"rank {rank} step {step} begins\n" for step in (3, 4) for rank in (0, 1, 2))


@pytest.mark.parametrize(
    ("key", "completed", "sure"),
    [
        ("0:2", 9, True),
        ("0", 9, False),  # the communicator of all ranks: which two of them, it does not tell
        ("0:2", 0, False),  # at the start everybody's message is the first
    ],
)
def test_who_begins_to_talk_to_one_that_waits_for_another(key: str, completed: int, sure: bool, tmp_path: Path) -> None:
    log = STEPS + waited(0, completed + 1, completed) + waited(1, 2 * completed + 1, 2 * completed) + begins(key)
    first = explained(log + "".join(map(end, (0, 1, 2))), tmp_path).causes[0]
    assert (first.confidence >= 0.5) is sure
    assert not sure or (first.cause, first.ranks) == ("p2p-order", (2,))


def test_waits_of_unlike_calls_are_told_apart(tmp_path: Path) -> None:
    log = STEPS + waited(0, 1, 0) + waited(1, 3, 2) + begins("0:2") + "".join(map(end, (0, 1, 2)))
    assert "ranks 0-2 waited in recv" not in explained(log, tmp_path).causes[0].summary
