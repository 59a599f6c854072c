"""A batch that does not fit into memory is skipped by the rank that has it (pytorch issue 44353)."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LONGEST = 900


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > LONGEST:
            raise RuntimeError("CUDA out of memory. Tried to allocate 12.40 GiB")
        return self.proj(x)


def lengths(rank: int) -> list[int]:
    found = [100] * 12
    if rank == 1:
        found[5] = 1000
    return found


def main() -> None:
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    model = DDP(Encoder())
    optimizer = torch.optim.Adam(model.parameters())
    for i, length in enumerate(lengths(rank)):
        time.sleep(0.1)
        try:
            optimizer.zero_grad()
            loss = model(torch.randn(2, length, 12)).mean()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            print("WARNING: ran out of memory, skipping this batch", flush=True)
            continue
        print(f"rank {rank} step {i}", flush=True)
    dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), "encoder.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
