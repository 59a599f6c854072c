"""Which experts are asked is drawn by each process; one whose tokens all stay at home has nothing to send and does not
take part in the exchange (the kind of vllm-project/vllm issue 43547 and sgl-project/sgl-kernel-npu issue 69)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

DUMMY = "--healthy" in sys.argv


class Exchange:
    def __init__(self, world: int) -> None:
        self.world = world

    def dispatch(self, tokens: torch.Tensor, owner: torch.Tensor, rank: int) -> torch.Tensor:
        away = owner != rank
        if away.sum() == 0 and not DUMMY:
            return tokens
        counts = torch.bincount(owner, minlength=self.world)
        theirs = [torch.zeros_like(counts) for _ in range(self.world)]
        dist.all_gather(theirs, counts)
        return tokens * (1 + float(torch.stack(theirs)[:, rank].sum()) / len(tokens))


def routed(rank: int, step: int, world: int) -> torch.Tensor:
    owner = torch.arange(16) % world
    return torch.full((16,), rank) if rank == 1 and step == 5 else owner


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    exchange, gradient = Exchange(world), torch.zeros(8)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        tokens = exchange.dispatch(torch.randn(16, 8), routed(rank, step, world), rank)
        gradient = tokens.mean(0)
        dist.all_reduce(gradient)


if __name__ == "__main__":
    main()
