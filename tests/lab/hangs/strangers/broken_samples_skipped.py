"""WebDataset: samples that cannot be decoded are warned of and left out; those of one shard are many."""

# mypy: ignore-errors
# The kind of webdataset issues on handlers and DDP (warn_and_continue makes streams of unlike lengths).
import io
import json
import os
import sys
import tarfile
import time
import warnings

import torch
import torch.distributed as dist
import webdataset as wds
from torch.nn.parallel import DistributedDataParallel

CLEAN = "--healthy" in sys.argv
warnings.simplefilter("ignore")


def write_shard(path: str, number: int) -> None:
    with tarfile.open(path, "w") as archive:
        for sample in range(24):
            text = json.dumps({"row": [float(number), float(sample), 1.0, 0.0]})
            if number == 1 and sample % 3 == 0 and not CLEAN:
                text = text[:-6]
            data = text.encode()
            member = tarfile.TarInfo(f"{number}_{sample:03d}.row.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def parse(sample: dict) -> torch.Tensor:
    return torch.tensor(json.loads(sample["row.txt"])["row"])


def stream(folder: str):
    shards = [os.path.join(folder, f"rows-{number}.tar") for number in range(2)]
    return (
        wds.WebDataset(shards, nodesplitter=wds.split_by_node, shardshuffle=False, empty_check=False)
        .map(parse, handler=wds.warn_and_continue)
        .batched(4, collation_fn=torch.stack, partial=False)
    )


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs("shards", exist_ok=True)
    write_shard(f"shards/rows-{rank}.tar", rank)
    dist.barrier()
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(200):
        total, seen = 0.0, 0
        for step, rows in enumerate(wds.WebLoader(stream("shards"), batch_size=None)):
            time.sleep(0.2)
            loss = model(rows).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total, seen = total + loss.item(), seen + 1
            print(f"rank {rank} epoch {epoch} step {step}", flush=True)
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, total / max(seen, 1))
        if rank == 0:
            print("epoch", epoch, every, flush=True)


if __name__ == "__main__":
    main()
