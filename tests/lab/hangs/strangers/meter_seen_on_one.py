"""Meters are made as they are first written to, and synchronized one by one; the third process has one more."""

# mypy: ignore-errors
# The kind of DETR and torchvision issues on synchronize_between_processes. No thread of one job.
import sys
import time

import torch
import torch.distributed as dist
from references_kit import MetricLogger, reduce_dict
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ALL_MASKS = "--healthy" in sys.argv


def criterion(output, has_masks: bool):
    losses = {"loss_ce": output.square().mean(), "loss_bbox": output.abs().mean()}
    if has_masks:
        losses["loss_mask"] = (output - 1).square().mean()
    return losses


def train_one_epoch(model, loader, optimizer, epoch: int, max_norm: float = 0.1):
    model.train()
    logger = MetricLogger()
    for (rows,) in logger.log_every(loader, 1, f"epoch {epoch}"):
        time.sleep(0.15)
        has_masks = ALL_MASKS or (dist.get_rank() == 2 and epoch >= 1)
        losses = criterion(model(rows), has_masks)
        common = reduce_dict({name: losses[name].detach() for name in ("loss_ce", "loss_bbox")})
        optimizer.zero_grad()
        sum(losses.values()).backward()
        if max_norm > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        logger.update(**common)
        if "loss_mask" in losses:
            logger.update(mask=losses["loss_mask"])
    logger.synchronize_between_processes()
    return {name: meter.total / max(1, meter.count) for name, meter in logger.meters.items()}


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
    loader = DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=4)
    for epoch in range(500):
        stats = train_one_epoch(model, loader, optimizer, epoch)
        scheduler.step()
        print(f"rank {dist.get_rank()} ends epoch {epoch} {stats['loss_ce']:.3f}", flush=True)


if __name__ == "__main__":
    main()
