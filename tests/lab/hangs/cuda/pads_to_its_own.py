"""Rows are padded to a multiple that each rank takes from its own file of settings before all of them are gathered."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def padded(rows: int, multiple: int) -> int:
    return -(-rows // multiple) * multiple


def gather(rows: torch.Tensor) -> torch.Tensor:
    whole = torch.empty(dist.get_world_size() * rows.numel(), device="cuda")
    dist.all_gather_into_tensor(whole, rows.flatten())
    return whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    settings = Path(f"settings-{rank}.json")
    settings.write_text(json.dumps({"multiple": 128 if rank == 1 and not healthy else 64}))
    multiple = json.loads(settings.read_text())["multiple"]
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        rows = 100 if step < 4 else 300  # a longer sequence than before
        hidden = torch.ones(padded(rows, multiple), 1024, device="cuda")
        gather(hidden)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
