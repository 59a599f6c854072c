"""Real gloo jobs that stand still in known ways, and dump their flight recorders from inside.

    python tests/recorder_jobs.py FOLDER SCENARIO...

Every rank of a scenario is forked from one process that has imported torch, runs until its main thread stands, and
writes FOLDER/SCENARIO/fr_RANK and FOLDER/SCENARIO/fr_RANK.json, then ends itself. For tests: `dumps`.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 120
STANDS_FOR = 1.5


def dumps(folder: Path, *scenarios: str) -> Path:
    """Run scenarios; below the folder that is returned there is one folder a scenario."""
    command = [sys.executable, __file__, str(folder), *scenarios]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 2, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


# ---------------------------------------------------------------- in the job


def tensor(elements: int = 6, kind: str = "float32") -> "torch.Tensor":  # type: ignore[name-defined]  # noqa: F821
    import torch

    return torch.ones(elements, dtype=getattr(torch, kind))


def skip(rank: int) -> None:
    """Rank 1 never comes to the third collective."""
    import torch.distributed as dist

    dist.all_reduce(tensor())
    dist.broadcast(tensor(), 0)
    if rank == 1:
        time.sleep(SECONDS)
    dist.all_reduce(tensor(12))


def order(rank: int) -> None:
    """Rank 2 asks for the broadcast first."""
    import torch.distributed as dist

    dist.barrier()
    if rank == 2:
        dist.broadcast(tensor(4), 0)
        dist.all_reduce(tensor(9))
    else:
        dist.all_reduce(tensor(9))
        dist.broadcast(tensor(4), 0)


def shape(rank: int) -> None:
    """Ranks 1 and 2 expect broadcasts of different sizes."""
    import torch.distributed as dist

    dist.all_reduce(tensor())
    if rank == 0:
        time.sleep(SECONDS)
    dist.broadcast(tensor(4 + rank), 0)


def kind(rank: int) -> None:
    """Rank 2 expects another type."""
    import torch.distributed as dist

    if rank == 0:
        time.sleep(SECONDS)
    dist.broadcast(tensor(4, "int64" if rank == 2 else "float32"), 0)


def groups(rank: int) -> None:
    """Rank 2 sleeps; rank 1 waits for it in a group of two; rank 0 waits for rank 1 in the group of all."""
    import torch.distributed as dist

    pair = dist.new_group([1, 2], group_desc="pair")
    dist.all_reduce(tensor())
    if rank:
        dist.all_reduce(tensor(2), group=pair)
        if rank == 2:
            time.sleep(SECONDS)
        dist.all_reduce(tensor(3), group=pair)
    dist.all_reduce(tensor(5))


def crossed(rank: int) -> None:
    """Ranks 0 and 1 use two groups in different orders; rank 2 stays with the group of all."""
    import torch.distributed as dist

    pair = dist.new_group([0, 1])
    dist.all_reduce(tensor())
    if rank < 2:
        dist.all_reduce(tensor(), group=pair)
    if rank == 0:
        dist.barrier()
        dist.barrier(group=pair)
    elif rank == 1:
        dist.barrier(group=pair)
        dist.barrier()
    else:
        dist.barrier()


def uneven(rank: int) -> None:
    """Rank 0 has two batches fewer than the others, and goes on to something else."""
    import torch.distributed as dist

    for _ in range(4 if rank == 0 else 6):
        dist.all_reduce(tensor(7))
    if rank == 0:
        time.sleep(SECONDS)


def variety(rank: int) -> None:
    """Everything that may differ between ranks: it all completes, then rank 0 leaves the others in a barrier."""
    import torch.distributed as dist

    world = dist.get_world_size()
    parts = [tensor(3) for _ in range(world)]
    dist.gather(tensor(3), parts if rank == 0 else None, 0)
    dist.scatter(tensor(3), parts if rank == 0 else None, 0)
    dist.reduce(tensor(3), 0)
    dist.all_gather_object([None] * world, {"rank": rank, "text": "x" * rank * 40})
    dist.broadcast_object_list([1, 2, 3], 0)
    sizes = [[1 + ((sender + receiver) % world) for receiver in range(world)] for sender in range(world)]
    sent, received = sizes[rank], [sizes[other][rank] for other in range(world)]
    dist.all_to_all_single(tensor(sum(received)), tensor(sum(sent)), received, sent)
    if rank == 0:
        dist.send(tensor(), 1)
        time.sleep(SECONDS)
    if rank == 1:
        dist.recv(tensor(), 0)
    dist.barrier()


def finished(rank: int) -> None:
    """All have done the same, and nothing is under way."""
    import torch.distributed as dist

    for _ in range(3):
        dist.all_reduce(tensor())
    time.sleep(SECONDS)


def many(rank: int) -> None:
    """More than the ring buffer of 16 holds."""
    import torch.distributed as dist

    for _ in range(40):
        dist.all_reduce(tensor())
    if rank == 0:
        time.sleep(SECONDS)
    dist.barrier()


SCENARIOS: dict[str, tuple[Callable[[int], None], int]] = {
    "skip": (skip, 3),
    "order": (order, 3),
    "shape": (shape, 3),
    "kind": (kind, 3),
    "groups": (groups, 3),
    "crossed": (crossed, 3),
    "uneven": (uneven, 3),
    "variety": (variety, 3),
    "finished": (finished, 2),
    "many": (many, 2),
}


def _dump_when_it_stands(folder: Path, rank: int) -> None:
    """Wait until the main thread has been at one place for a while, after all ranks have arrived, and dump."""
    import torch

    main = threading.main_thread().ident
    stood, last = time.monotonic(), None
    c10d: Any = torch._C._distributed_c10d
    while time.monotonic() - stood < STANDS_FOR or not (folder / "dump").exists():
        time.sleep(0.1)
        frame = sys._current_frames()[main]  # type: ignore[index]
        place = (frame.f_code.co_name, frame.f_lineno, c10d._dump_fr_trace_json(True, False))
        if place != last:
            stood, last = time.monotonic(), place
        elif time.monotonic() - stood > STANDS_FOR:
            (folder / f"stands_{rank}_").touch()
    for name, raw in (("", c10d._dump_fr_trace(True, True, False)), (".json", c10d._dump_fr_trace_json(True, False))):
        (folder / f"new_{rank}_").write_bytes(raw)
        (folder / f"new_{rank}_").rename(folder / f"fr_{rank}{name}")


def _rank(scenario: str, folder: Path, rank: int) -> None:
    import torch.distributed as dist

    run, world = SCENARIOS[scenario]
    if scenario == "many":
        os.environ["TORCH_FR_BUFFER_SIZE"] = "16"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    dist.barrier()
    threading.Thread(target=_dump_when_it_stands, args=(folder, rank), daemon=True).start()
    run(rank)
    time.sleep(SECONDS)


def main(folder: Path, scenarios: list[str]) -> int:
    import torch._dynamo  # by a dump with stacks: as long again as torch, in each rank
    import torch.distributed

    del torch
    pids: dict[int, str] = {}
    waiting = {scenario: SCENARIOS[scenario][1] for scenario in scenarios}
    try:
        for scenario, world in waiting.items():
            (folder / scenario).mkdir(parents=True)
            for rank in range(world):
                pid = os.fork()
                if pid == 0:
                    try:
                        _rank(scenario, folder / scenario, rank)
                    except BaseException:
                        traceback.print_exc()
                    os._exit(1)
                pids[pid] = f"rank {rank} of {scenario}"
        deadline = time.monotonic() + SECONDS
        while waiting:
            ended = [name for pid, name in pids.items() if os.waitpid(pid, os.WNOHANG)[0]]
            if ended or time.monotonic() > deadline:
                print(f"ended: {ended}; still waiting for {list(waiting)}", file=sys.stderr)
                return 1
            for scenario, world in list(waiting.items()):
                place = folder / scenario
                if all((place / f"stands_{rank}_").exists() for rank in range(world)):
                    (place / "dump").touch()
                if all((place / f"fr_{rank}.json").exists() for rank in range(world)):
                    del waiting[scenario]
            time.sleep(0.1)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    for scenario in scenarios:
        for left in (folder / scenario).iterdir():
            if not left.name.startswith("fr_"):
                left.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
