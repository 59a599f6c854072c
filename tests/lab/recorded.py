"""Gloo jobs of several kinds of parallelism that stand, by their dumps alone: `python -m tests.lab.recorded DIR`.

Each has one fault, and is run by tests/recorder_jobs.py; `HURT` says who must be named, and was committed before any
of the dumps had been read. Beside it torch's own fr_trace is asked for the ranks that it reports.
"""

# mypy: ignore-errors
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from tests import recorder_jobs
from tests.recorder_jobs import SECONDS, tensor

HURT = {
    "sharded_and_tensor": (2,),
    "pipeline_stops": (1,),
    "experts_without_tokens": (3,),
    "guarded_barrier": (0,),
    "one_microbatch_less": (2,),
}
"""Who must be named, each alone: the others wait for them, or for those who do."""


def mesh(*names: str):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (2, 2), mesh_dim_names=names)


def sharded_and_tensor(rank: int) -> None:
    """FSDP2 over two, a tensor-parallel sum over two: rank 2 stays in its own code before a sum of the fourth step."""
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    both = mesh("data", "tensor")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    for layer in (*model, model):
        fully_shard(layer, mesh=both["data"])
    for step in range(20):
        hidden = model[0](torch.ones(2, 8))
        if rank == 2 and step == 3:
            time.sleep(SECONDS)
        whole = hidden.detach().clone()
        dist.all_reduce(whole, group=both["tensor"].get_group())
        model[1](hidden + whole).sum().backward()


def pipeline_stops(rank: int) -> None:
    """Four stages: the second one does not come back from its own code at the sixth batch."""
    import torch.distributed as dist

    for batch in range(20):
        if rank > 0:
            dist.recv(tensor(), rank - 1)
        if rank == 1 and batch == 5:
            time.sleep(SECONDS)
        if rank < 3:
            dist.send(tensor(), rank + 1)
        if rank < 3:
            dist.recv(tensor(), rank + 1)
        if rank > 0:
            dist.send(tensor(), rank - 1)


def experts_without_tokens(rank: int) -> None:
    """Experts of two, gradients of all: rank 3 has no tokens in the fifth step and leaves the exchange out."""
    import torch.distributed as dist

    both = mesh("data", "expert")
    for step in range(20):
        if rank != 3 or step != 4:
            gathered = [tensor(), tensor()]
            dist.all_gather(gathered, tensor(), group=both["expert"].get_group())
        dist.all_reduce(tensor(30))


def guarded_barrier(rank: int) -> None:
    """Data parallel: a barrier when something is saved, which the first one alone does."""
    import torch.distributed as dist

    for step in range(20):
        dist.all_reduce(tensor(30))
        if step == 6 and rank == 0:
            dist.barrier()


def one_microbatch_less(rank: int) -> None:
    """Two pipelines of two, and gradients between these: the first stage of the second one sends one batch less."""
    import torch.distributed as dist

    pairs = [dist.new_group([stage, stage + 2], group_desc=f"data of stage {stage}") for stage in (0, 1)]
    for step in range(20):
        for _ in range(3 if rank == 2 and step == 4 else 4):
            if rank % 2 == 0:
                dist.send(tensor(), rank + 1)
            else:
                dist.recv(tensor(), rank - 1)
        dist.all_reduce(tensor(30), group=pairs[rank % 2])


def told(folder: Path) -> tuple[tuple[int, ...], str]:
    """Whom gpudoctor blames at 0.5 or more, and with what."""
    words = [sys.executable, "-m", "gpudoctor", "hang", "--dumps", str(folder), "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    jobs = [job for job in json.loads(done.stdout)["jobs"] if job["id"].startswith("flight recorder")]
    causes = [cause for job in jobs for cause in job["causes"] if cause["confidence"] >= 0.5]
    ranks = sorted({rank for cause in causes[:1] for rank in cause["ranks"]})
    words = [f"{cause['cause']} {cause['confidence']:.2f}" for cause in causes] or [job["undecided"] for job in jobs]
    return tuple(ranks), "; ".join(words)


def of_torch(folder: Path) -> str:
    """What fr_trace writes of ranks."""
    words = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "-p", "fr_"]
    done = subprocess.run([*words, "--allow-incomplete-ranks"], capture_output=True, text=True)
    return " | ".join(
        line[:160] for line in (done.stdout + done.stderr).splitlines() if re.search(r"\branks?\b|Error", line)
    )


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or [*HURT]
    recorder_jobs.STANDS_FOR = 8.0  # so that nothing may still be on its way
    recorder_jobs.SCENARIOS.update({name: (globals()[name], 4) for name in names})
    for name in names:  # four processes at a time are enough
        if not (folder / name).exists() and recorder_jobs.main(folder, [name]):
            return 1
    right = 0
    for name in names:
        for own in (folder / name).glob("*.json"):
            own.unlink()
        ranks, causes = told(folder / name)
        right += ranks == HURT[name]
        print(f"{name}: {HURT[name]}, told {ranks} ({causes})\n    fr_trace: {of_torch(folder / name)[:700]}")
    print(f"{right} of {len(names)} right")
    return int(right < len(names))


if __name__ == "__main__":
    sys.exit(main())
