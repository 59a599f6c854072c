"""Throughput is summed in a group of its own, and nobody waits for it; one rank has stopped to take part.

Training goes on until the watchdog ends it."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Monitor:
    def __init__(self) -> None:
        self.group = dist.new_group()
        self.enabled = True
        self.pending: list[dist.Work] = []

    def tell(self, samples: float) -> None:
        if not self.enabled:
            return
        value = torch.full((3,), samples, device="cuda")
        self.pending.append(dist.all_reduce(value, group=self.group, async_op=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    monitor = Monitor()
    for step in range(100_000):
        time.sleep(0.3 + 0.05 * rank)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.current_stream().synchronize()
        if rank == 1 and step == 2 and not healthy:
            monitor.enabled = False
        if step % 2 == 0:
            monitor.tell(8.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
