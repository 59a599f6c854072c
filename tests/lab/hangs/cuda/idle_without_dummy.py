"""Data parallel serving with experts on all ranks: one without requests skips the empty step that the others need."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Engine:
    def __init__(self, requests: list[int]) -> None:
        self.requests = requests
        self.served = 0

    def step(self, number: int, dummy: bool) -> None:
        waiting = self.requests[number % len(self.requests)]
        if waiting == 0 and not dummy:
            return
        tokens = torch.ones(3 * 512, device="cuda")
        dist.all_to_all_single(torch.empty_like(tokens), tokens)
        torch.cuda.synchronize()
        self.served += waiting


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    engine = Engine([2, 2, 2, 2, 2, 0, 0, 1] if rank == 0 else [2, 1, 1, 2, 3, 1, 2, 1])
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        engine.step(step, dummy=healthy)
        if step % 8 == 7:
            served = torch.tensor([float(engine.served)], device="cuda")
            dist.all_reduce(served)
            print(f"rank {rank} all have served {served.item():.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
