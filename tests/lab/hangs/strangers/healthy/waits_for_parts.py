"""The first process needs six seconds for the parts of a graph, the others wait for their key (dgl issue 3164)."""

# mypy: ignore-errors
import json
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("partition", dist.distributed_c10d._get_default_store())
    step = 0
    for epoch in range(1000):
        if rank == 0:
            time.sleep(6.0 if epoch else 0.1)
            for part in range(world):
                store.set(f"{epoch}/{part}", json.dumps([part, part + 1]))
        first, last = json.loads(store.get(f"{epoch}/{rank}"))
        for _ in range(2):
            time.sleep(0.3)
            dist.all_reduce(torch.ones(last - first))
            print(f"rank {rank} step {step}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
