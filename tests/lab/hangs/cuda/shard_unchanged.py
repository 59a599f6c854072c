"""A checkpoint is gathered on the main process; a rank whose shard has not changed returns before it sends it."""

import argparse
import hashlib
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Checkpoint:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = ""

    def save(self, shard: torch.Tensor, state: bytes) -> None:
        digest = hashlib.sha256(state).hexdigest()
        if digest == self.last:
            return
        self.last = digest
        main = dist.get_rank() == 0
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())] if main else None
        dist.gather(shard, parts, dst=0)
        torch.cuda.synchronize()
        if parts is not None:
            torch.save([part.cpu() for part in parts], self.folder / "model.pt")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    shard = torch.ones(1 << 18, device="cuda")
    checkpoint = Checkpoint(Path.cwd())
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        trained = 2 if rank == 2 and not healthy else step  # a learning rate of 0 changes nothing
        if step % 3 == 2:
            checkpoint.save(shard, f"{rank} {trained}".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
