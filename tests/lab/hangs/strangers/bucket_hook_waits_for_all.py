"""Gradients are put in a bucket by hooks, and a full bucket is reduced; a head without a sample fills none."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Bucket:
    def __init__(self, weights):
        self.size, self.ready = len(weights), []
        for weight in weights:
            weight.register_post_accumulate_grad_hook(self.arrived)

    def arrived(self, weight):
        self.ready.append(weight.grad)
        if len(self.ready) == self.size:
            flat = torch.cat([gradient.flatten() for gradient in self.ready])
            dist.all_reduce(flat)
            self.ready.clear()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.main, self.extra = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, rows, masks):
        hidden = self.trunk(rows)
        loss = self.main(hidden).square().mean()
        if masks.any():
            loss = loss + self.extra(hidden)[masks].square().mean()
        return loss


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = Model()
    bucket = Bucket(list(model.parameters()))
    for step in range(2000):
        time.sleep(0.2)
        masks = torch.ones(8, dtype=torch.bool)
        if (rank, step) == (1, 6) and "--healthy" not in sys.argv:
            masks[:] = False
        model(torch.rand(8, 4), masks).backward()
        bucket.ready.clear()
        for weight in model.parameters():
            weight.grad = None
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            dist.barrier()


if __name__ == "__main__":
    main()
