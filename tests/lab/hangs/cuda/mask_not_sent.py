"""A stage sends its hidden states, and the mask where there is padding; the next one always expects both."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def send(hidden: torch.Tensor, mask: torch.Tensor | None, to: int) -> None:
    dist.send(hidden, dst=to)
    if mask is not None:
        dist.send(mask, dst=to)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    before, after = rank - 1, rank + 1
    hidden, mask = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank > 0:
            dist.recv(hidden, src=before)
            dist.recv(mask, src=before)
        padded = healthy or rank != 0 or step < 4
        if rank < dist.get_world_size() - 1:
            send(hidden, mask if padded else None, after)
            dist.recv(hidden, src=after)
        if rank > 0:
            dist.send(hidden, dst=before)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
