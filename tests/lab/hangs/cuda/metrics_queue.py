"""The main process hands its metrics to a thread that writes them; the thread has died, and the queue is full."""

import argparse
import os
import queue
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Tracker:
    def __init__(self, broken: bool) -> None:
        self.rows: queue.Queue[dict[str, float]] = queue.Queue(maxsize=2)
        self.broken = broken
        threading.Thread(target=self.write, name="tracker", daemon=True).start()

    def write(self) -> None:
        for number in range(1000):
            row = self.rows.get()
            if self.broken and number == 2:
                return
            print("metrics", row, flush=True)

    def log(self, **values: float) -> None:
        self.rows.put(values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    tracker = Tracker(broken=not healthy) if rank == 0 else None
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if tracker:
            tracker.log(loss=loss.item(), norm=norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
