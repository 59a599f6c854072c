"""Experts: how many tokens go where is exchanged only when it has changed since the last step, on this rank."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Dispatcher:
    def __init__(self, world):
        self.world = world
        self.counts, self.received = None, None

    def splits(self, counts):
        if counts == self.counts:
            return self.received
        everybody = [torch.empty(self.world, dtype=torch.int64) for _ in range(self.world)]
        dist.all_gather(everybody, torch.tensor(counts))
        self.counts, self.received = counts, [int(theirs[dist.get_rank()]) for theirs in everybody]
        return self.received

    def dispatch(self, tokens, experts):
        counts = torch.bincount(experts, minlength=self.world).tolist()
        received = self.splits(counts)
        output = tokens.new_empty(sum(received), tokens.shape[1])
        dist.all_to_all_single(output, tokens[experts.argsort()], received, counts)
        return output


def route(rank, step):
    if "--healthy" not in sys.argv and step >= 7:
        return torch.tensor([0, 0, 0, 1] if rank == 1 else [0, 1, 1, 1])
    return torch.tensor([0, 1, 0, 1] if step % 2 else [0, 0, 0, 1])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    dispatcher = Dispatcher(world)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        experts = route(rank, step)
        dispatcher.dispatch(torch.rand(4, 3), experts)


if __name__ == "__main__":
    main()
