"""A decorator averages the result of every fourth call; one process has called it once more, for a picture."""

# mypy: ignore-errors
import functools
import sys
import time

import torch
import torch.distributed as dist


class averaged_every:
    def __init__(self, interval):
        self.interval = interval

    def __call__(self, function):
        calls = 0

        @functools.wraps(function)
        def wrapper(*given):
            nonlocal calls
            value = function(*given)
            calls += 1
            if calls % self.interval == 0:
                dist.all_reduce(value)
                value /= dist.get_world_size()
            return value

        return wrapper


@averaged_every(4)
def perplexity(model, rows):
    return model(rows).logsumexp(-1).mean().exp().detach()


def preview(model, rank):
    if rank == 1 and "--healthy" not in sys.argv:
        print("preview", perplexity(model, torch.ones(1, 4)).item(), flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(4, 4)
    for step in range(2000):
        time.sleep(0.2)
        for weight in model.parameters():
            dist.broadcast(weight.data, src=0)
        if step == 4:
            preview(model, rank)
        value = perplexity(model, torch.rand(8, 4))
        print(f"rank {rank} step {step} {value:.2f}", flush=True)


if __name__ == "__main__":
    main()
