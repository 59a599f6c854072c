"""A thread prefetches batches into a queue; on one rank it ended at a bad record, and nobody looks whether it lives."""

import argparse
import os
import queue
import threading
import time

import torch
import torch.distributed as dist


class Prefetcher:
    def __init__(self, records: list[str]) -> None:
        self.records = records
        self.ready: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)
        threading.Thread(target=self.run, name="prefetch", daemon=True).start()

    def run(self) -> None:
        for record in self.records:
            self.ready.put(torch.full((64,), float(record)))

    def next(self) -> torch.Tensor:
        return self.ready.get()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    records = ["1.0"] * 1000
    if rank == 1 and not healthy:
        records[6] = "1,0"
    batches = Prefetcher(records)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batch = batches.next().cuda()
        gradient = batch.square()
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
