"""DeepSpeed: each process steps once for every batch that it has, and they do not have as many."""

# mypy: ignore-errors
# After https://github.com/deepspeedai/DeepSpeed/issues/2223.
import sys
import time

import deepspeed
import torch
import torch.distributed as dist

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 0},
    "zero_allow_untested_optimizer": True,
}


def batches(rank, epoch):
    few = rank == 1 and epoch == 1 and "--healthy" not in sys.argv
    return torch.rand(12 if few else 20, 6).split(2)


def main():
    deepspeed.init_distributed("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    step = 0
    for epoch in range(200):
        for rows in batches(rank, epoch):
            time.sleep(0.2)
            loss = engine(rows).square().mean()
            engine.backward(loss)
            engine.step()
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        seen = [None] * dist.get_world_size()
        dist.all_gather_object(seen, step)


if __name__ == "__main__":
    main()
