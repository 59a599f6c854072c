"""Runs and logs of NCCL to grade: what ranks on the machines of gpudoctor/testing/machines.py would have said.

The logs follow the formats of NCCL's source (knowledge/nccl/log.py); nobody's log is copied.
"""

from collections.abc import Mapping

from gpudoctor.knowledge.wording import GIB
from gpudoctor.nccl.rank_messages import Member, Row
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import Snapshot


def row(collective: str, bus_bandwidth: float, size_bytes: int = 8 * GIB, wrong: int | None = 0) -> Row:
    return Row(
        collective=collective,
        size_bytes=size_bytes,
        count=size_bytes // 4,
        dtype="float32",
        iterations=20,
        minimum_us=1.0,
        mean_us=1.0,
        maximum_us=1.0,
        slowest_rank=0,
        algorithm_bandwidth=bus_bandwidth,
        bus_bandwidth=bus_bandwidth,
        wrong=wrong,
        wrong_ranks=(1,) if wrong else (),
    )


def members(machines: Mapping[str, Snapshot], count: int = 0) -> tuple[Member, ...]:
    """One rank a GPU, or `count` a node, in NVML's order."""
    found: list[Member] = []
    places = [
        (node, index, gpu)
        for node, machine in machines.items()
        for index, gpu in enumerate(machine.nvidia.gpus.value[: count or None])
    ]
    for rank, (node, local_rank, gpu) in enumerate(places):
        found.append(
            Member(
                rank=rank,
                world_size=len(places),
                host=node,
                local_rank=local_rank,
                device=gpu.name.value,
                bus_id=gpu.pci_bus_id.value,
                nccl="2.29.7",
            )
        )
    return tuple(found)


def run_of(machines: Mapping[str, Snapshot], *rows: Row, count: int = 0) -> RunResult:
    return RunResult(outcome="complete", nodes=tuple(machines), members=members(machines, count), rows=rows)


def record(text: str, level: str = "INFO", host: str = "n01") -> str:
    place = "" if level == "INFO" else " net.cc:123"
    return f"{host}:4711:4712 [0]{place} NCCL {level} {text}"


def log_of(*texts: str) -> str:
    return "".join(record(text) + "\n" for text in texts)


def paths_log(run: RunResult, inside: str, between: str = "NET/IB/0/GDRDMA", *more: str) -> dict[int, str]:
    """Each rank's log: a ring, `inside` a node and `between` nodes."""
    logs = {}
    for member in run.members:
        receiver = run.members[(member.rank + 1) % len(run.members)]
        same = receiver.host == member.host
        pair = f"{member.rank}[{member.local_rank}] -> {receiver.rank}[{receiver.local_rank}]"
        conn = "" if inside.startswith("SHM") and same else "/0"
        via = f"via {inside}" if same else f"[send] via {between}"
        logs[member.rank] = log_of(f"Channel 00{conn} : {pair} {via}", *more)
    return logs
