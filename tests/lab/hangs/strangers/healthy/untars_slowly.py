"""Workers untar shards from a mounted bucket, each of which takes its time (goofys issue 153)."""

# mypy: ignore-errors
import os
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __init__(self, rank: int, archive: bytes) -> None:
        self.rank, self.archive = rank, archive

    def __len__(self) -> int:
        return 1000

    def _mounted(self, number: int) -> Path:
        """An object that comes after some seconds."""
        path = Path(f"{self.rank}-{number}.tar")
        os.mkfifo(path)

        def come() -> None:
            time.sleep(0.1 if number < 4 else 4.0)
            path.write_bytes(self.archive)

        threading.Thread(target=come, daemon=True).start()
        return path

    def __getitem__(self, number: int) -> torch.Tensor:
        target = Path(f"scratch{self.rank}")
        target.mkdir(exist_ok=True)
        subprocess.run(["tar", "-xf", str(self._mounted(number)), "-C", str(target)], check=True)
        return torch.ones(8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    Path(f"tokens{rank}").write_bytes(bytes(range(64)))
    with tarfile.open(f"shard{rank}.tar", "w") as archive:
        archive.add(f"tokens{rank}")
    shards = Shards(rank, Path(f"shard{rank}.tar").read_bytes())
    for step, batch in enumerate(DataLoader(shards, batch_size=1, num_workers=1)):
        dist.all_reduce(batch.mean())
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
