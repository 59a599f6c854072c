"""Workers untar shards from a mounted bucket, and one read of it is never answered (goofys issue 153)."""

# mypy: ignore-errors
import os
import subprocess
import tarfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __init__(self, mount: Path, rank: int) -> None:
        self.paths = sorted(mount.glob(f"{rank}-*.tgz"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> torch.Tensor:
        target = Path("scratch") / self.paths[number].stem
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-xf", str(self.paths[number]), "-C", str(target)], check=True)
        return torch.frombuffer(bytearray((target / "tokens").read_bytes()), dtype=torch.uint8)


def bucket(mount: Path, rank: int) -> None:
    """What is mounted; one object does not come."""
    mount.mkdir(exist_ok=True)
    tokens = Path(f"tokens{rank}")
    tokens.write_bytes(bytes(range(64)))
    for number in range(12):
        path = mount / f"{rank}-{number:02}.tgz"
        if (rank, number) == (1, 7):
            os.mkfifo(path)
            continue
        with tarfile.open(path, "w:gz") as archive:
            archive.add(tokens, "tokens")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mount = Path("s3")
    bucket(mount, rank)
    dist.barrier()
    loader = DataLoader(Shards(mount, rank), batch_size=1, num_workers=1)
    for step, batch in enumerate(loader):
        time.sleep(0.2)
        dist.all_reduce(batch.float().mean())
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
