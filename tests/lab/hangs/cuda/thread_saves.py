"""A checkpoint is written by a thread, which then meets its like on the group that trains meanwhile."""

import argparse
import os
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist


def write(state: dict[str, torch.Tensor], path: Path, seconds: float, group: dist.ProcessGroup | None) -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    time.sleep(seconds)  # a disk
    torch.save(state, path)
    written = torch.ones(1, device="cuda" if group is None else "cpu")
    dist.all_reduce(written, group=group)
    print(f"rank {dist.get_rank()}: {written.item():.0f} have written {path}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    beside = dist.new_group(backend="gloo") if healthy else None
    disk = 0.0 if rank == 2 else 1.5
    state = {"weight": torch.ones(1024)}
    writers: list[threading.Thread] = []
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 20 == 3:
            writers.append(threading.Thread(target=write, args=(state, Path(f"{rank}.pt"), disk, beside)))
            writers[-1].start()
            time.sleep(0.5)  # collects garbage
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
