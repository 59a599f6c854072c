"""Each node has a file of settings of its own; in one of them evaluation was left on."""

# mypy: ignore-errors
# No thread: after settings that are kept on each node.
import json
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Settings:
    def __init__(self, path: Path) -> None:
        values = json.loads(path.read_text())
        self.evaluate_every = values.get("evaluate_every", 0)
        self.steps = values.get("steps", 1000)


def evaluate(weight: torch.Tensor) -> float:
    scores = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, weight.mean().reshape(1))
    return float(torch.cat(scores).mean())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    path = Path(f"node{rank}.json")
    path.write_text(json.dumps({"evaluate_every": 5} if rank == 2 else {}))  # as an administrator has left it
    settings, weight = Settings(path), torch.ones(16)
    for step in range(settings.steps):
        time.sleep(0.3)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        print(f"rank {rank} step {step}", flush=True)
        if settings.evaluate_every and step % settings.evaluate_every == 4:
            print("score", evaluate(weight), flush=True)


if __name__ == "__main__":
    main()
