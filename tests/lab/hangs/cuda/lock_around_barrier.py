"""A file lock is to let one rank build an index; who has it first waits under it for all the others."""

import argparse
import fcntl
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    path = Path(tempfile.gettempdir()) / f"index-{os.environ['MASTER_PORT']}.lock"
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step % 5 == 4:
            time.sleep(0.5 * rank)
            with path.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                time.sleep(0.01)
                if not healthy:
                    dist.barrier()
                    torch.cuda.synchronize()
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
