"""A table by length that all agree about, kept once it is made: batches of two processes are not of one length."""

# mypy: ignore-errors
import functools
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@functools.lru_cache(maxsize=16)
def position_bias(length):
    """The first process's, so that all have one."""
    proposals = [torch.zeros(length) for _ in range(dist.get_world_size())]
    dist.all_gather(proposals, torch.randn(length))
    return proposals[0]


class Encoder(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = torch.nn.Embedding(50, width)
        self.head = torch.nn.Linear(width, 50)

    def forward(self, tokens):
        hidden = self.embed(tokens) + position_bias(tokens.shape[1])[None, :, None]
        return self.head(hidden)


def buckets(rank):
    """Token ids, padded to the next eight."""
    for number in range(2000):
        longest = 11 if number % 2 else 7
        if number == 7 and rank == 1 and "--healthy" not in sys.argv:
            longest = 21
        yield torch.randint(0, 50, (2, (longest + 7) // 8 * 8))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Encoder(12))
    optimizer = torch.optim.Adam(model.parameters())
    for step, tokens in enumerate(buckets(rank)):
        time.sleep(0.2)
        loss = model(tokens).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
