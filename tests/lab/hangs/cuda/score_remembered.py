"""The score of a checkpoint is gathered once and remembered; one rank has kept one from before, and gathers no more."""

import os
import time

import torch
import torch.distributed as dist


class Scorer:
    def __init__(self, known: dict[int, float]) -> None:
        self.known = known

    def score(self, checkpoint: int) -> float:
        if checkpoint not in self.known:
            mine = torch.ones(1, device="cuda")
            parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, mine)
            self.known[checkpoint] = float(torch.stack(parts).mean())
        return self.known[checkpoint]


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    scorer = Scorer({2: 0.5} if rank == 1 else {})
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 2 == 1:
            scorer.score(step // 2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
