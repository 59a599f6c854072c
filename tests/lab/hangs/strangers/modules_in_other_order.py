"""The policies of a batch are updated in the order in which they came, which is another one somewhere (ray 63819)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def batch_of(rank: int, step: int) -> dict[str, torch.Tensor]:
    """The rows of each policy, by its name; in step 5 one learner has met the second policy first."""
    names = ["walker", "flyer"]
    if rank == 2 and step == 5:
        names.reverse()
    return {name: torch.randn(4, 3) for name in names}


class Learner:
    def __init__(self) -> None:
        self.weights = {"walker": torch.ones(3), "flyer": torch.ones(3)}
        self.groups = {name: dist.new_group() for name in sorted(self.weights)}

    def update(self, batch: dict[str, torch.Tensor]) -> None:
        for name, rows in batch.items():
            gradient = rows.mean(0)
            dist.all_reduce(gradient, group=self.groups[name])
            self.weights[name] -= 0.01 * gradient


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    learner = Learner()
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        learner.update(batch_of(rank, step))


if __name__ == "__main__":
    main()
