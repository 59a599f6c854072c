"""Answers of `gpudoctor nccl-test` as docs and tests show them: hand-made figures, judged by the program itself."""

from collections.abc import Callable

import msgspec

from gpudoctor.knowledge.wording import GIB, MIB
from gpudoctor.nccl.compare_settings import settings_of, verdict
from gpudoctor.nccl.grade import grade
from gpudoctor.nccl.isolate import Isolating
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import Compared, TestResult
from gpudoctor.snapshot import GpuDirect, Snapshot
from gpudoctor.testing.machines import but
from gpudoctor.testing.networks import with_network
from tests.machines.network_machines import dgx_h100
from tests.nccl_runs import paths_log, run_of

FACTORS = {"all_reduce": 2 * 15 / 16, "all_gather": 15 / 16}
RANKS = 16


def measured(collective: str, size: int, microseconds: float) -> Row:
    """A row whose bandwidths follow from its time, 16 ranks."""
    algorithm = size / microseconds / 1e3
    return Row(
        collective=collective,
        size_bytes=size,
        count=size // 4 // (1 if collective == "all_reduce" else RANKS),
        dtype="float32",
        iterations=20,
        minimum_us=round(microseconds * 0.985, 1),
        mean_us=round(microseconds * 0.992, 1),
        maximum_us=microseconds,
        slowest_rank=11,
        algorithm_bandwidth=round(algorithm, 3),
        bus_bandwidth=round(algorithm * FACTORS[collective], 3),
        wrong=0,
    )


def gdr_off() -> TestResult:
    """Two DGX H100 whose kernel has no peer memory module, under a driver without DMA-BUF."""
    machine = with_network(dgx_h100(), gpu_direct=GpuDirect(open_kernel_module=False))
    machine = but(machine, "nvidia.cuda_version", (11, 4))
    machines: dict[str, Snapshot] = {"n01": machine, "n02": machine}
    rows = [
        measured("all_gather", 64 * MIB, 1010.0),
        measured("all_gather", 512 * MIB, 4870.0),
        measured("all_gather", GIB, 9510.0),
        measured("all_gather", 8 * GIB, 73900.0),
    ]
    run = msgspec.structs.replace(run_of(machines, *rows), seconds=41.0)
    logs = paths_log(run, "P2P/CUMEM", "NET/IB/0", "NCCL version 2.29.7+cuda13.0")
    told = [msgspec.structs.replace(member, torch="2.13.0+cu130", cuda="13.0") for member in run.members]
    run = msgspec.structs.replace(run, members=tuple(told))
    grades, findings = grade(run, machines, "nccl", logs)
    return _answer(
        nodes=("n01", "n02"),
        ranks_per_node=(8, 8),
        world_size=RANKS,
        run=run,
        grades=grades,
        findings=findings,
        seconds={"reach": 0.6, "preflight": 1.1, "run": 52.3},
    )


def slow_node(count: int = 8) -> TestResult:
    """Eight nodes, one of which reaches a third of the others."""
    names = tuple(f"n{number:02}" for number in range(1, count + 1))
    planner = Isolating(names, ranks_alone=True)
    while (wanted := planner.next_round()) is not None:
        planner.feed([_reached(group) for group in wanted.groups])
    return _answer(
        nodes=names, ranks_per_node=(8,) * count, isolation=planner.conclusion(),
        seconds={"reach": 0.9, "preflight": 1.6, "run": 118.0},
    )  # fmt: skip


def _reached(group: tuple[int, ...]) -> float:
    alone = len(group) == 1
    spread = sum(group) % 5 * 0.9
    if 6 in group and not alone:
        return 61.0 + spread
    return (364.0 if alone else 188.0) + spread


def compared() -> TestResult:
    """Two settings of which one wins."""
    combinations = ({"NCCL_SOCKET_NTHREADS": "1"}, {"NCCL_SOCKET_NTHREADS": "4"})
    values = [(0, 5.1), (1, 7.9), (1, 8.1), (0, 5.0)]
    runs = [(index, Compared(combinations[index], {"all_reduce": value})) for index, value in values]
    return _answer(
        nodes=("n01", "n02"),
        ranks_per_node=(8, 8),
        world_size=RANKS,
        compared=settings_of(combinations, runs),
        comparison=verdict(combinations, runs),
        seconds={"reach": 0.6, "preflight": 1.1, "run": 96.0},
    )


def _answer(**fields: object) -> TestResult:
    about = TestResult(
        gpudoctor="0.1.0",
        reached_by="ssh",
        backend="nccl",
        why_backend="every node has GPUs and a torch with NCCL",
        rendezvous="10.0.0.1:61234",
    )
    return msgspec.structs.replace(about, **fields)


EXAMPLES: dict[str, Callable[[], TestResult]] = {
    "nccl-test-gdr-off": gdr_off,
    "nccl-test-slow-node": slow_node,
    "nccl-test-compared": compared,
}
