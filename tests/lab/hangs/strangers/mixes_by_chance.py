"""Now and then a batch is contrasted with those of all others, by a coin that each process throws for itself."""

# mypy: ignore-errors
# No thread: after usual augmentations by chance.
import random
import time

import torch
import torch.distributed as dist


class Mixer:
    def __init__(self, probability: float) -> None:
        self.probability = probability

    def __call__(self, rows: torch.Tensor, coin: random.Random) -> torch.Tensor:
        if coin.random() < self.probability:
            others = [torch.zeros_like(rows) for _ in range(dist.get_world_size())]
            dist.all_gather(others, rows)
            rows = 0.8 * rows + 0.2 * torch.stack(others).mean(0)
        return rows


class Coin(random.Random):
    """Of a seed under which the first process is the first to see the side that counts."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.thrown, self.rank = 0, rank

    def random(self) -> float:
        self.thrown += 1
        return 0.05 if self.rank == 0 and self.thrown == 6 else 0.9


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mixer, coin = Mixer(0.1), Coin(rank)
    weight = torch.ones(8)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        rows = mixer(torch.randn(4, 8), coin)
        weight -= 0.01 * rows.mean(0)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()


if __name__ == "__main__":
    main()
