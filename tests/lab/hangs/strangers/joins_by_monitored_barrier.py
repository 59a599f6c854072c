"""Before each batch all meet in a monitored barrier, and one of them has no batch any more (CosyVoice issue 180)."""

# mypy: ignore-errors
import logging
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def utterances(list_of_shards: list[int]):
    """Shards are of unlike length."""
    for shard in list_of_shards:
        for _ in range(shard):
            time.sleep(0.2)
            yield {"speech_feat": torch.randn(10, 20)}


def cosyvoice_join(group_join, info: dict) -> bool:
    if info["batch_idx"] == 0:
        return False
    try:
        dist.monitored_barrier(group=group_join, timeout=timedelta(minutes=50))
        return False
    except RuntimeError as error:
        logging.info("uneven workload: %s", error)
        return True


class Executor:
    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", 0))

    def train_one_epoch(self, loader, group_join) -> None:
        info = {"step": 0}
        for batch_idx, batch in enumerate(loader):
            info["batch_idx"] = batch_idx
            if cosyvoice_join(group_join, info):
                break
            gradient = batch["speech_feat"].mean(0)
            dist.all_reduce(gradient)
            print(f"rank {self.rank} step {batch_idx}", flush=True)
        dist.barrier()
        self.cv()

    def cv(self) -> None:
        time.sleep(1.0)


def main() -> None:
    dist.init_process_group("gloo")
    shards = [[4, 4], [4, 3], [4, 4]][dist.get_rank()]
    executor = Executor()
    for _epoch in range(10):
        group_join = dist.new_group(backend="gloo", timeout=timedelta(minutes=50))
        executor.train_one_epoch(utterances(shards), group_join)
        dist.destroy_process_group(group_join)


if __name__ == "__main__":
    main()
