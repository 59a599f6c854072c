"""Gradients are clipped to a bound that a monitor process hands out; the monitor of one rank has been ended."""

import argparse
import multiprocessing
import os
import time

import torch
import torch.distributed as dist


def monitor(bounds: "multiprocessing.Queue[float]", last: int) -> None:
    for step in range(last):
        bounds.put(1.0 + step / 1000)


class Clipped(torch.nn.Module):
    def __init__(self, bounds: "multiprocessing.Queue[float]") -> None:
        super().__init__()
        self.bounds = bounds
        self.first = torch.nn.Linear(1024, 512)
        self.second = torch.nn.Linear(512, 256)

    def clip(self, gradient: torch.Tensor) -> torch.Tensor:
        bound = self.bounds.get()
        return gradient.clamp(-bound, bound)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        hidden = self.first(value).relu()
        hidden.register_hook(self.clip)
        return self.second(hidden)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    context = multiprocessing.get_context("spawn")
    bounds: multiprocessing.Queue[float] = context.Queue()
    last = 6 if rank == 1 and not healthy else 100_000
    helper = context.Process(target=monitor, args=(bounds, last), daemon=True)
    helper.start()
    model = torch.nn.parallel.DistributedDataParallel(Clipped(bounds).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1000):
        time.sleep(0.3 if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(4, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
