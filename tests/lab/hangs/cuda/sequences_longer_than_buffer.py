"""Context parallel in a ring: every rank sends before it receives, which is well as long as NCCL's buffers hold it."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def pass_on(keys: torch.Tensor, ordered: bool) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(keys)
    if ordered and rank % 2:
        dist.recv(received, (rank - 1) % size)
        dist.send(keys, (rank + 1) % size)
    else:
        dist.send(keys, (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
    return received


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        length = 64 if step < 4 else 8192
        keys = torch.ones(length, 1024, device=device)
        for _ in range(dist.get_world_size() - 1):
            keys = pass_on(keys, healthy)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
