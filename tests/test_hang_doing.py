"""A rank that waits for its remote calls to end stands only as long as none of them gets on in a thread of its own."""

import pytest
from msgspec import structs

from gpudoctor.hang.doing import stands
from gpudoctor.snapshot.evidence import Frame, Sample, Thread
from tests.test_hang_parted import stands as rank_at

RPC = "/x/site-packages/torch/distributed/rpc"
MAIN = (Frame("shutdown", f"{RPC}/api.py", 330), Frame("main", "/w/train.py", 82))
SERVED = (Frame("train", "/w/train.py", 56), Frame("_run_function", f"{RPC}/internal.py", 209))


def sample(at: float, switches: int, pid: int) -> Sample:
    main = Thread(id=pid, name="MainThread", frames=MAIN, switches=5, cpu_seconds=1.0, state="S")
    served = Thread(id=pid + 1, name="pt_thread_pool", frames=SERVED, switches=switches, cpu_seconds=0.1, state="S")
    return Sample(at=at, stacks_by="py-spy", state="S", threads=(main, served))


@pytest.mark.parametrize(("switches", "right"), [((17, 17), True), ((17, 98), False)])
def test_a_call_that_gets_on_is_waited_for(switches: tuple[int, int], right: bool) -> None:
    rank = rank_at(1, "user code", "", [("main", 82, "/w/train.py")], ())
    samples = tuple(sample(2.0 * at, count, rank.pid) for at, count in enumerate(switches))
    evidence = structs.replace(rank.evidence, samples=samples)
    assert stands(structs.replace(rank, evidence=evidence, moved=False)) is right
