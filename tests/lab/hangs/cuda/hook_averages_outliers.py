"""A hook on the last layer looks for outliers, and where it sees one it asks all ranks for their mean."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Watch:
    def __init__(self, seen_at: int) -> None:
        self.calls = 0
        self.seen_at = seen_at

    def __call__(self, gradient: torch.Tensor) -> None:
        self.calls += 1
        if self.calls == self.seen_at:
            mean = torch.ones(4096, device="cuda")
            dist.all_reduce(mean)
            torch.cuda.synchronize()
            print(f"outliers in call {self.calls}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    layers = torch.nn.Sequential(torch.nn.Linear(1024, 512), torch.nn.Linear(512, 64)).cuda()
    layers[1].weight.register_hook(Watch(6 if rank == 0 or healthy else 1_000_000))
    model = torch.nn.parallel.DistributedDataParallel(layers)
    for step in range(1000):
        time.sleep(0.3 if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        model(torch.ones(4, 1024, device="cuda")).square().mean().backward()
        model.zero_grad()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
