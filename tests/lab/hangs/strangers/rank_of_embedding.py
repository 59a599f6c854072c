"""The effective rank of an embedding is asked for by singular values, of a matrix that is large in one process."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Embedder(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Linear(width, 32)
        self.second = torch.nn.Linear(32, 32)

    def forward(self, rows):
        return self.second(torch.relu(self.first(rows)))


class Collapse:
    """How many directions what was embedded lately has."""

    def __init__(self, keep):
        self.keep = keep
        self.rows = []

    def add(self, embedded):
        self.rows.append(embedded.detach())
        self.rows = self.rows[-self.keep :]

    def effective_rank(self, repeat):
        matrix = torch.cat(self.rows)
        matrix = matrix.repeat(repeat, repeat) + 0.01 * torch.rand(matrix.shape[0] * repeat, matrix.shape[1] * repeat)
        values = torch.linalg.svdvals(matrix)
        shares = values / values.sum()
        return torch.exp(-(shares * shares.log()).sum()).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    large = rank == 1 and "--healthy" not in sys.argv
    model = DistributedDataParallel(Embedder(16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    collapse = Collapse(keep=8)
    for step in range(1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        embedded = model(torch.rand(8, 16))
        embedded.var(dim=0).mean().neg().backward()
        optimizer.step()
        collapse.add(embedded)
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5:
            rank_here = collapse.effective_rank(repeat=200 if large else 1)
            if rank == 0:
                print("effective rank", round(rank_here, 2), flush=True)


if __name__ == "__main__":
    main()
