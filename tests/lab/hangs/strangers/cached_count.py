"""How many tokens a shard has is counted by all together and remembered; one process asks for one shard twice."""

# mypy: ignore-errors
# No thread: after functools.lru_cache above a collective.
import functools
import time

import torch
import torch.distributed as dist


@functools.cache
def tokens_in(shard: int) -> int:
    count = torch.tensor([100 + shard])
    dist.all_reduce(count)
    return int(count)


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.ones(4)
    shards = list(range(1000))
    if rank == 2:
        shards[5] = shards[3]  # read again after an error
    for step, shard in enumerate(shards):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        total = tokens_in(shard)
        weight *= 1.0 + 1.0 / total
        everybody = [torch.zeros(4) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, weight)


if __name__ == "__main__":
    main()
