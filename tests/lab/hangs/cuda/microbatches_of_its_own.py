"""A pipeline of three stages; the last one counts its microbatches from a batch size of its own."""

import argparse
import os
import time

import torch
import torch.distributed as dist

BATCH, MICROBATCH = 16, 4


class Stage:
    def __init__(self, rank: int, last: int, microbatches: int) -> None:
        self.rank, self.last, self.microbatches = rank, last, microbatches
        self.layer = torch.nn.Linear(1024, 1024).cuda()

    def forward(self) -> None:
        for _ in range(self.microbatches):
            hidden = torch.ones(512, 1024, device="cuda")
            if self.rank > 0:
                dist.recv(hidden, self.rank - 1)
            with torch.no_grad():
                hidden = self.layer(hidden)
            if self.rank < self.last:
                dist.send(hidden, self.rank + 1)
        torch.cuda.synchronize()

    def backward(self) -> None:
        for _ in range(self.microbatches):
            gradient = torch.ones(512, 1024, device="cuda")
            if self.rank < self.last:
                dist.recv(gradient, self.rank + 1)
            if self.rank > 0:
                dist.send(gradient, self.rank - 1)
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    batch = BATCH + MICROBATCH if rank == last and not healthy else BATCH
    stage = Stage(rank, last, BATCH // MICROBATCH)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3:
            stage.microbatches = batch // MICROBATCH
        stage.forward()
        stage.backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
