"""Jobs in which ranks are late, made by hand: what recorders and samples would have told, concluded by the program."""

import random
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from gpudoctor.hang.job import JobMember, Members
from gpudoctor.slow.conclude import concluded, paces_of
from gpudoctor.slow.report import JobPace, SlowReport
from gpudoctor.snapshot.evidence import Frame, Process, Thread, Unread
from gpudoctor.snapshot.pace import CollectiveTimes, CpuQuota, MemoryPeak, NodePace, ProcessPace, RankTimes, StackSeen

BEGIN = 1_790_000_000_000_000_000
TORCH = "/usr/lib/python3.12/site-packages/torch"
NAMES = ("all_reduce [[25557032]]", "all_reduce [[1]]")
GIB = 1 << 30


def times(
    late: Mapping[int, float],
    *,
    ranks: int = 4,
    step: float = 0.2,
    steps: int = 120,
    noise: float = 0.001,
    node_of: Callable[[int], int] = lambda rank: 0,
    skew: Mapping[int, float] | None = None,
    backend: str = "gloo",
    seed: int = 3,
) -> list[NodePace]:
    """A job that waits in both collectives of each step; `late`: seconds by rank, in each step."""
    chance = random.Random(seed)
    now = 0.0
    came: dict[int, list[int]] = {rank: [] for rank in range(ranks)}
    for _ in range(steps):
        for part in (0.7, 0.3):
            at = {
                rank: now + step * part + chance.uniform(0, noise) + (late.get(rank, 0.0) if part == 0.7 else 0.0)
                for rank in range(ranks)
            }
            for rank, moment in at.items():
                came[rank].append(BEGIN + round((moment + (skew or {}).get(node_of(rank), 0.0)) * 1e9))
            now = max(at.values())
    nodes = []
    for node in sorted({node_of(rank) for rank in range(ranks)}):
        own = [rank for rank in range(ranks) if node_of(rank) == node]
        nodes.append(
            NodePace(
                hostname=f"gpu-{node + 1:02}",
                ranks=tuple(
                    RankTimes(
                        rank=rank,
                        pid=4000 + rank,
                        backend=backend,
                        asked_at=came[rank][-1] / 1e9 + 0.05,
                        groups=(group_of(came[rank]),),
                    )
                    for rank in own
                ),
                memory=tuple(
                    MemoryPeak(pid=4000 + rank, peak_bytes=(7 + rank) * GIB, limit_bytes=64 * GIB) for rank in own
                ),
            )
        )
    return nodes


def group_of(created: Sequence[int], key: str = "0") -> CollectiveTimes:
    return CollectiveTimes(
        group=key,
        description="default_pg",
        sequences=tuple(range(len(created))),
        created_ns=tuple(created),
        kinds=tuple(number % 2 for number in range(len(created))),
        names=NAMES,
    )


def members(ranks: int = 4, node_of: Callable[[int], int] = lambda rank: 0) -> Members:
    return Members(
        id="torchrun at 10.0.0.1:29500",
        user="mara",
        members=tuple(
            JobMember(
                node=node_of(rank),
                process=Process(pid=4000 + rank, parent=1, started=1),
                role="rank",
                rank=rank,
                local_rank=rank,
                world_size=ranks,
            )
            for rank in range(ranks)
        ),
    )


def stands(pid: int, *stacks: tuple[int, Sequence[Frame]], quota: CpuQuota | None = None) -> ProcessPace:
    """A process whose main thread was seen so often at each of these stacks."""
    return ProcessPace(
        pid=pid,
        seconds=60.0,
        stacks=tuple(
            StackSeen(thread=Thread(id=pid, name="MainThread", state="S", frames=tuple(frames)), count=count)
            for count, frames in stacks
        ),
        quota=quota,
    )


IN_INPUT = (
    Frame("decode", "/home/mara/data.py", 41),
    Frame("__getitem__", "/home/mara/data.py", 30),
    Frame("fetch", f"{TORCH}/utils/data/_utils/fetch.py", 52),
    Frame("_next_data", f"{TORCH}/utils/data/dataloader.py", 788),
    Frame("main", "/home/mara/train.py", 77),
)
IN_FORWARD = (Frame("_call_impl", f"{TORCH}/nn/modules/module.py", 1780), Frame("main", "/home/mara/train.py", 80))
IN_BACKWARD = (
    Frame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 865),
    Frame("backward", f"{TORCH}/autograd/__init__.py", 364),
    Frame("backward", f"{TORCH}/_tensor.py", 649),
    Frame("main", "/home/mara/train.py", 82),
)
WAITS = (
    Frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 2800),
    Frame("main", "/home/mara/train.py", 84),
)


def input_of_rank(rank: int = 2) -> JobPace:
    """Four ranks with steps of 200 ms, of which one takes 20 ms longer for its samples."""
    nodes = times({rank: 0.02})
    first = paces_of(nodes)
    sampled = [
        replace(
            nodes[0],
            processes=tuple(
                stands(4000 + each, (6, IN_INPUT), (40, IN_FORWARD), (4, WAITS))
                if each == rank
                else stands(4000 + each, (1, IN_INPUT), (40, IN_FORWARD), (9, WAITS))
                for each in range(4)
            ),
        )
    ]
    return concluded(members(), nodes, first, first, sampled, 50.0)


def even() -> JobPace:
    """Nobody is late."""
    nodes = times({})
    return concluded(members(), nodes, paces_of(nodes), None)


def not_armed() -> JobPace:
    """A job that nobody armed."""
    reason = "it is not armed: start the job with `gpudoctor run`, or call gpudoctor.arm() in the script"
    unread = tuple(Unread(f"flight recorder of rank {rank}", reason, 4000 + rank) for rank in range(4))
    nodes = [NodePace(hostname="gpu-01", unread=unread)]
    return concluded(members(), nodes, paces_of(nodes), None)


def report(pace: JobPace) -> SlowReport:
    return SlowReport(hosts=("gpu-01",), paces=(pace,))


EXAMPLES: dict[str, Callable[[], SlowReport]] = {
    "slow-input": lambda: report(input_of_rank()),
    "slow-even": lambda: report(even()),
    "slow-not-armed": lambda: report(not_armed()),
}
