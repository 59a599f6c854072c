"""A generator of batches ends with a barrier; who breaks off closes it, and comes to that barrier early."""

# mypy: ignore-errors
# No thread: after loaders that tidy up when their generator is closed.
import time

import torch
import torch.distributed as dist


def batches(count: int):
    try:
        for number in range(count):
            yield torch.full((4,), float(number))
    finally:
        dist.barrier()  # nobody may remove the shards that others still read


def train_epoch(epoch: int, weight: torch.Tensor) -> None:
    rank = dist.get_rank()
    for step, batch in enumerate(batches(40)):
        time.sleep(0.2)
        loss = float(batch.mean()) if rank != 1 else float(batch.mean()) ** 3
        print(f"rank {rank} step {step}", flush=True)
        if loss > 100:
            print("loss runs away, next epoch")
            break
        dist.all_reduce(weight)
        weight /= dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    weight = torch.ones(16)
    for epoch in range(20):
        train_epoch(epoch, weight)


if __name__ == "__main__":
    main()
