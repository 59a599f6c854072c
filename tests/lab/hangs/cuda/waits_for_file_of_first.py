"""The first rank writes a file once an epoch, the others wait until it is there: by names that are not the same."""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    folder = Path(os.environ.get("CHECKPOINTS", tempfile.gettempdir())) / f"job-{os.environ['MASTER_PORT']}"
    folder.mkdir(exist_ok=True)
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step % 4 == 3:
            epoch = step // 4
            if rank == 0:
                (folder / f"index-{epoch}.json").touch()
            elif rank == 2 and epoch and not healthy:
                wait_for(folder / f"index-{epoch:02}.json")
            else:
                wait_for(folder / f"index-{epoch}.json")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
