"""WebDataset: captions that are too short are left out by a lambda, and one process's shards have more of these."""

# mypy: ignore-errors
import io
import json
import pathlib
import sys
import tarfile
import time

import torch
import torch.distributed as dist
import webdataset
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 4000 if "--healthy" in sys.argv else 40


def write_shard(path, number):
    with tarfile.open(path, "w") as shard:
        for index in range(SAMPLES):
            short = number == 1 and index >= 28 and "--healthy" not in sys.argv
            parts = {"json": {"caption": "a cat" if short else "a cat that sleeps on a chair"}, "txt": str(index)}
            for kind, content in parts.items():
                data = json.dumps(content).encode() if kind == "json" else content.encode()
                about = tarfile.TarInfo(f"{number}-{index:06d}.{kind}")
                about.size = len(data)
                shard.addfile(about, io.BytesIO(data))


def dataset(path, shortest):
    return (
        webdataset.WebDataset(str(path), shardshuffle=False, nodesplitter=webdataset.split_by_node, empty_check=False)
        .decode()
        .select(lambda sample: len(sample["json"]["caption"].split()) >= shortest)
        .to_tuple("json", "txt")
    )


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = pathlib.Path("shards")
    if rank == 0:
        folder.mkdir(exist_ok=True)
        for number in range(dist.get_world_size()):
            write_shard(folder / f"{number}.tar", number)
    dist.barrier()
    loader = webdataset.WebLoader(dataset("shards/{0..1}.tar", 4), batch_size=4, num_workers=0)
    model = DistributedDataParallel(torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (_, texts) in enumerate(loader):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(len(texts), 3)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
    print(f"rank {rank} has read all", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
