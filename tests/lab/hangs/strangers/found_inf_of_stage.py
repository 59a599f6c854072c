"""Overflow is asked for among the tensor parallel peers only, and one pair skips what its data parallel peers make."""

# mypy: ignore-errors
# No thread; the kind of loss scaler that reduces found_inf over one group of two.
import sys
import time

import torch
import torch.distributed as dist

EVERYWHERE = "--healthy" in sys.argv


class Scaler:
    def __init__(self, group):
        self.group = None if EVERYWHERE else group
        self.scale = 1024.0
        self.found_inf = False

    def unscale(self, grads):
        bad = torch.tensor([float(any(not grad.isfinite().all() for grad in grads))])
        dist.all_reduce(bad, op=dist.ReduceOp.MAX, group=self.group)
        self.found_inf = bool(bad.item())

    def update(self):
        self.scale *= 0.5 if self.found_inf else 1.0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tensor = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    data = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    scaler = Scaler(tensor)
    weight = torch.rand(6)
    for step in range(1000):
        time.sleep(0.2)
        partial = torch.rand(6)
        dist.all_reduce(partial, group=tensor)
        if rank == 3 and step == 5:
            partial[0] = float("inf")
        scaler.unscale([partial])
        print(f"rank {rank} step {step}", flush=True)
        if not scaler.found_inf:
            dist.all_reduce(partial, group=data)
            weight -= 0.001 * partial
        scaler.update()
        dist.barrier()


if __name__ == "__main__":
    main()
