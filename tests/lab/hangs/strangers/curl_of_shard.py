"""Shards come through `pipe:curl`, which waits for a server without an end of its own (webdataset issue 308)."""

# mypy: ignore-errors
import io
import socket
import tarfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import webdataset


def shard(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for number in range(6):
            entry = tarfile.TarInfo(f"{number:04}.txt")
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"text"))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = Path(f"shards{rank}")
    folder.mkdir()
    shard(folder / "a.tar")
    urls = [f"pipe:cat {folder / 'a.tar'}"]
    storage = socket.create_server(("127.0.0.1", 0))
    if rank == 1:
        urls.append(f"pipe:curl -s -L http://127.0.0.1:{storage.getsockname()[1]}/b.tar")
    else:
        urls.append(f"pipe:cat {folder / 'a.tar'}")
    dataset = webdataset.WebDataset(urls, shardshuffle=False, nodesplitter=lambda source: source).decode()
    for step, sample in enumerate(dataset):
        time.sleep(0.2)
        dist.all_reduce(torch.tensor([len(sample["txt"])]))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
