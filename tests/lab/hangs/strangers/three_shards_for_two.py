"""webdataset: three shards for two processes, so that one of them has twice as many rows
(webdataset/webdataset issue 188)."""

# mypy: ignore-errors
import io
import sys
import tarfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import webdataset as wds
from torch.nn.parallel import DistributedDataParallel

SHARDS = 4 if "--healthy" in sys.argv else 3
ROWS = 300 if "--healthy" in sys.argv else 4


def write(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for number in range(ROWS):
            data = str(number / 10).encode()
            info = tarfile.TarInfo(f"{path.stem}-{number:04d}.txt")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def prepare(rank: int) -> list[str]:
    paths = [Path(f"train-{number:03d}.tar") for number in range(SHARDS)]
    if rank == 0:
        for path in paths:
            write(path)
    dist.barrier()
    return [str(path) for path in paths]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    urls = prepare(rank)
    data = wds.WebDataset(urls, nodesplitter=wds.split_by_node, shardshuffle=False).decode().to_tuple("txt")
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for epoch in range(2):
        for step, (text,) in enumerate(data):
            time.sleep(0.2)
            print(f"rank {rank} step {step}", flush=True)
            loss = model(torch.tensor([[float(text)]])).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        dist.barrier()
        if rank == 0:
            torch.save(model.state_dict(), f"epoch{epoch}.pt")


if __name__ == "__main__":
    main()
