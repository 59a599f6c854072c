"""Checkpoints are written behind the training with a group of their own, one after the other (torchtitan pull 313)."""

import time
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    saving = dist.new_group(backend="gloo")
    model = DistributedDataParallel(nn.Linear(64, 64))
    pending: Future[Any] | None = None
    for step in range(10_000):
        time.sleep(0.3)
        model(torch.randn(4, 64)).sum().backward()
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            if pending is not None:
                pending.result()
            state = {"model": model.module.state_dict()}
            pending = dcp.async_save(state, checkpoint_id=f"step{step % 2}", process_group=saving)


if __name__ == "__main__":
    main()
