"""Tensor parallel: the first rank reads the batches and sends them to the others; its data ends."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist


def read(samples: int) -> Iterator[torch.Tensor]:
    for _ in range(samples):
        yield torch.ones(8, 32)


def batches(reader: Iterator[torch.Tensor] | None) -> Iterator[torch.Tensor]:
    while True:
        batch = torch.empty(8, 32, device="cuda")
        if reader is not None:
            try:
                batch.copy_(next(reader))
            except StopIteration:
                return
        dist.broadcast(batch, 0)
        yield batch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Linear(32, 32).cuda()
    reader = read(1000 if healthy else 6) if rank == 0 else None
    for step, batch in enumerate(batches(reader)):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        partial = model(batch)
        dist.all_reduce(partial)
        print(f"rank {rank} loss {partial.square().mean().item():.3f}", flush=True)
    dist.barrier()
    print(f"rank {rank} has read all", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
