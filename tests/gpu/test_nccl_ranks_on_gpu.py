"""Several real NCCL ranks on one GPU (NCCL_HOSTID each): data, log, and that nobody grades it."""

import pytest

from gpudoctor.knowledge.nccl.log import read_log
from gpudoctor.nccl.grade import grade
from gpudoctor.nccl.plan import COLLECTIVES, measurements
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot import Snapshot
from tests.gpu.nccl_ranks import need_nccl, run

pytestmark = pytest.mark.timeout(600)
SIZES = (8, 1 << 20, 16 << 20)
"""Small: processes take turns on the GPU, so that every collective waits for a time slice."""


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_on_one_gpu_move_right_data_and_are_not_graded(
    ranks: int, machine: Snapshot, environment: dict[str, str]
) -> None:
    need_nccl()
    wanted = measurements(COLLECTIVES, SIZES)
    ran = run(ranks, wanted, environment, ranks_share_gpu=True, iterations=3, warmup=2, repeats=1)
    assert ran.status == 0, ran.why
    # With 4 ranks, 8 bytes are less than one element a rank for the kinds that share them out.
    assert len(ran.rows) == len(wanted) - (3 if ranks == 4 else 0), ran.why
    assert [row.wrong for row in ran.rows] == [0] * len(ran.rows)
    assert all(row.maximum_us > 0 for row in ran.rows)

    assert [member.rank for member in ran.members] == list(range(ranks))
    assert {member.world_size for member in ran.members} == {ranks}
    (bus_id,) = {member.bus_id for member in ran.members}
    known = [gpu.pci_bus_id.value.lower() for gpu in machine.nvidia.gpus.value]
    assert any(address.endswith(bus_id) for address in known), (bus_id, known)
    (version,) = {member.nccl for member in ran.members}

    assert sorted(ran.logs) == list(range(ranks))
    facts = read_log(ran.logs[0])
    assert facts.version == version
    assert facts.network == "Socket"
    assert facts.ranks == ranks
    assert {path.transport for path in facts.paths} == {"NET/Socket"}

    name = machine.host.hostname.value_or("here")
    done = RunResult(
        outcome="complete",
        nodes=(name,),
        members=ran.members,
        rows=ran.rows,
        ends=(NodeRanks(node=name, how="done"),),
    )
    grades, _ = grade(done, {name: machine}, "nccl", ran.logs)
    assert {each.collective for each in grades} == set(COLLECTIVES)
    assert {each.verdict for each in grades} == {"not graded"}
    assert all(each.reason for each in grades)


def test_every_gpu_of_the_machine_moves_right_data(environment: dict[str, str]) -> None:
    count = need_nccl()
    ran = run(count, measurements(COLLECTIVES, SIZES), environment, iterations=3, repeats=1)
    assert ran.status == 0, ran.why
    assert {row.collective for row in ran.rows} >= set(COLLECTIVES) - {"send_recv"}
    assert [row.wrong for row in ran.rows] == [0] * len(ran.rows)
    assert len({(member.host, member.bus_id) for member in ran.members}) == count


def test_a_gpu_that_is_not_there_is_named(environment: dict[str, str]) -> None:
    count = need_nccl()
    ran = run(count + 1, measurements(["all_reduce"], [8]), environment)
    assert ran.status != 0
    assert f"local rank {count} on" in ran.why and f"torch sees {count} there" in ran.why
