"""Sequences are of unlike lengths, so one process computes for seconds while the others are done (lhotse 1309)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.TransformerEncoderLayer(32, 4, batch_first=True))
    for step in range(1000):
        begin = time.monotonic()
        long = step > 1 and rank == step % dist.get_world_size()
        while True:  # micro batches, as many as the lengths ask for
            with model.no_sync():
                model(torch.randn(2, 128, 32)).sum().backward()
            if time.monotonic() - begin > (6.0 if long else 0.2):
                break
        model(torch.randn(2, 16, 32)).sum().backward()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
