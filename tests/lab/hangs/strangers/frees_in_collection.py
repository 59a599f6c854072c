"""A buffer that all share is freed together, and on one process the collector comes to it (pytorch issue 195500)."""

# mypy: ignore-errors
import gc
import time

import torch
import torch.distributed as dist


class SymmetricBuffer:
    def __init__(self, size: int, rank: int) -> None:
        self.memory = torch.zeros(size)
        self.rank = rank
        self.views = [self]  # a cycle

    def exchange(self) -> None:
        dist.all_reduce(self.memory)

    def __del__(self) -> None:
        dist.barrier()
        self.memory = None


class Sampler:
    """The collector is switched off, and asked now and then."""

    def __init__(self, every: int) -> None:
        self.every, self.tokens, self.collected = every, 0, 0

    def count(self, tokens: int) -> None:
        self.tokens += tokens
        if self.tokens // self.every > self.collected:
            self.collected += 1
            gc.collect()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gc.collect()
    gc.disable()
    sampler = Sampler(every=4000)
    workspace = SymmetricBuffer(1024, rank)
    for step in range(1000):
        time.sleep(0.2)
        workspace.exchange()
        print(f"rank {rank} step {step}", flush=True)
        if step == 4:
            workspace = SymmetricBuffer(4096, rank)
        sampler.count(900 if rank == 1 else 410)


if __name__ == "__main__":
    main()
