"""The references end the program at a loss that is not finite; here the epoch is given up instead, by whom it meets."""

# mypy: ignore-errors
# After facebookresearch/detr issues on "Loss is nan, stopping training": the copy returns where the original exits.
import math
import sys
import time

import torch
import torch.distributed as dist
from references_kit import MetricLogger, reduce_dict
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

TOGETHER = "--healthy" in sys.argv


def train_one_epoch(model, loader, optimizer, epoch: int, accumulate: int = 2) -> None:
    logger = MetricLogger()
    for step, (rows,) in enumerate(logger.log_every(loader, 1, f"epoch {epoch}")):
        time.sleep(0.15)
        if rows.sum() == 0:
            continue
        loss = model(rows).square().mean()
        if dist.get_rank() == 1 and epoch == 1 and step == 3:
            loss = loss * float("nan")
        value = loss.item()
        if TOGETHER:
            value = reduce_dict({"loss": loss.detach()})["loss"].item()
        if not math.isfinite(value):
            print(f"Loss is {value}, the epoch ends", flush=True)
            return
        (loss / accumulate).backward()
        if step % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
        logger.update(loss=value)
    logger.synchronize_between_processes()


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(TensorDataset(torch.rand(32, 4)), batch_size=4)
    for epoch in range(500):
        train_one_epoch(model, loader, optimizer, epoch)
        dist.barrier()
        print(f"rank {dist.get_rank()} ends epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
