"""The first of each ring makes the samples and makes sure all requests are sent, in the whole world (OpenRLHF 876)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Strategy:
    def __init__(self, ring_size: int) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.ring_size = ring_size
        self.ring_rank = self.rank % ring_size
        for first in range(0, self.world, ring_size):
            members = list(range(first, first + ring_size))
            group = dist.new_group(members)
            if self.rank in members:
                self.ring_group, self.source = group, first


class ExperienceMaker:
    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    def generate(self, step: int) -> list[int]:
        requests = [step * 10 + number for number in range(4)]
        time.sleep(0.2)
        if step >= 4:
            # Make sure all requests are sent.
            dist.barrier()
        return requests

    def make_experience(self, step: int) -> list[int]:
        strategy = self.strategy
        if strategy.ring_rank == 0:
            samples = self.generate(step)
            dist.broadcast_object_list(samples, src=strategy.source, group=strategy.ring_group)
        else:
            samples = [None] * 4
            dist.broadcast_object_list(samples, src=strategy.source, group=strategy.ring_group)
        return samples


def main() -> None:
    dist.init_process_group("gloo")
    strategy = Strategy(ring_size=2)
    maker = ExperienceMaker(strategy)
    for step in range(1000):
        print(f"rank {strategy.rank} step {step}", flush=True)
        samples = maker.make_experience(step)
        total = torch.tensor(float(sum(samples)))
        dist.all_reduce(total)


if __name__ == "__main__":
    main()
