"""A conditional expression asks the others for their temperature where the own one has drifted."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Temperature:
    def __init__(self, rank):
        self.value, self.rank, self.target = torch.tensor(1.0), rank, 1.0

    def adapt(self, step):
        drifts = self.rank == 0 and step > 6 and "--healthy" not in sys.argv
        self.value += 0.4 if drifts else 0.0

    def shared(self):
        dist.all_reduce(self.value)
        return self.value / dist.get_world_size()

    def current(self):
        return self.shared() if (self.value - self.target).abs() > 0.5 else self.value


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    temperature = Temperature(rank)
    layer = torch.nn.Linear(1, 1, bias=False)
    for step in range(2000):
        time.sleep(0.2)
        temperature.adapt(step)
        logits = layer(torch.rand(2, 1)) / temperature.current()
        logits.square().mean().backward()
        for weight in layer.parameters():
            dist.all_reduce(weight.grad, op=dist.ReduceOp.SUM)
            weight.grad = None
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            dist.barrier()


if __name__ == "__main__":
    main()
