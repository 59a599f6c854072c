"""Activations are spilled to disk in forward and read back in backward; on one rank the writing thread has died."""

import argparse
import os
import queue
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

folder = Path(tempfile.mkdtemp(prefix="spill-"))
jobs: "queue.Queue[tuple[Path, torch.Tensor]]" = queue.Queue()


def writer(limit: int) -> None:
    for _ in range(limit):
        path, tensor = jobs.get()
        partial = path.with_suffix(".part")
        torch.save(tensor, partial)
        partial.rename(path)


class Spill(torch.autograd.Function):
    count = 0

    @staticmethod
    def forward(ctx, value):
        Spill.count += 1
        ctx.path = folder / f"{Spill.count}.pt"
        jobs.put((ctx.path, torch.ones(value.shape)))
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        while not ctx.path.exists():
            time.sleep(0.02)
        saved = torch.load(ctx.path)
        ctx.path.unlink()
        return gradient * saved.to(gradient.device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    limit = 7 if rank == 2 and not healthy else 10_000_000
    threading.Thread(target=writer, args=(limit,), daemon=True).start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 512).cuda())
    for step in range(1000):
        time.sleep(0.3 if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = Spill.apply(model(torch.ones(4, 1024, device="cuda"))).square().mean()
        loss.backward()
        model.zero_grad()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
