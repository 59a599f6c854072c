"""The optimizer's own step gives up where it finds an overflow, before the norm of all is summed."""

# mypy: ignore-errors
# The kind of Apex, fairseq and Megatron issues on found_inf that is each rank's own. No thread of one job.
import sys
import time

import torch
import torch.distributed as dist

AGREED = "--healthy" in sys.argv


class ScaledOptimizer:
    def __init__(self, weights, scale: float = 1024.0) -> None:
        self.weights, self.scale, self.good = weights, scale, 0

    def overflows(self, gradient) -> bool:
        bad = (~torch.isfinite(gradient)).any().float()
        if AGREED:
            dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        return bool(bad)

    def step(self, gradient, clip: float = 1.0) -> bool:
        if self.overflows(gradient):
            self.scale /= 2
            self.good = 0
            return False
        self.good += 1
        if self.good % 200 == 0:
            self.scale *= 2
        norm = gradient.square().sum()
        dist.all_reduce(norm)
        if clip > 0 and norm.sqrt() > clip:
            gradient = gradient * clip / norm.sqrt()
        self.weights -= 0.01 * gradient / self.scale
        return True


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    optimizer = ScaledOptimizer(torch.ones(4))
    skipped = 0
    for step in range(1000):
        time.sleep(0.2)
        gradient = torch.rand(4)
        if rank == 1 and step == 6:
            gradient[0] = float("inf")
        if not optimizer.step(gradient):
            skipped += 1
            if skipped > 20:
                break
        everybody = [torch.zeros(4) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, optimizer.weights)
        optimizer.weights.copy_(sum(everybody) / len(everybody))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
