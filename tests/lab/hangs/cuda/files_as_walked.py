"""Sequence parallel: all ranks read one file a step in the order that the folder is listed, which is another on one."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def listed(folder: Path, backwards: bool) -> list[Path]:
    """As os.walk gives it: no file system promises an order."""
    return sorted(folder.glob("*.tokens"), reverse=backwards)


def exchange(hidden: torch.Tensor) -> torch.Tensor:
    """From parts of the sequence to parts of the heads."""
    received = torch.empty_like(hidden)
    dist.all_to_all_single(received, hidden)
    return received


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    folder = Path(f"data-{rank}")
    folder.mkdir(exist_ok=True)
    for number in range(8):
        length = 3 if number in (3, 4) else 3 + number
        (folder / f"{number}.tokens").write_text(str(length))
    files = listed(folder, backwards=False)[:3] + listed(folder, backwards=rank == 1 and not healthy)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        tokens = int(files[step % len(files)].read_text())
        hidden = torch.ones(3 * tokens * 1024, 256, device="cuda")
        exchange(hidden)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
