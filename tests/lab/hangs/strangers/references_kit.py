"""Helpers as one repository's training references have handed them on to the next: who is main, meters, a logger."""

# mypy: ignore-errors
import time
from collections import defaultdict

import torch
import torch.distributed as dist


def get_rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def get_world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_main_process() -> bool:
    return get_rank() == 0


def reduce_dict(values, average=True):
    """The values of all processes, so that each has the averaged results."""
    world_size = get_world_size()
    if world_size < 2:
        return values
    with torch.no_grad():
        names = sorted(values)
        stacked = torch.stack([values[name] for name in names])
        dist.all_reduce(stacked)
        if average:
            stacked /= world_size
        return dict(zip(names, stacked, strict=True))


class SmoothedValue:
    def __init__(self) -> None:
        self.count, self.total = 0, 0.0

    def update(self, value: float) -> None:
        self.count += 1
        self.total += value

    def synchronize_between_processes(self) -> None:
        if get_world_size() < 2:
            return
        both = torch.tensor([self.count, self.total])
        dist.barrier()
        dist.all_reduce(both)
        self.count, self.total = int(both[0]), float(both[1])


class MetricLogger:
    def __init__(self) -> None:
        self.meters = defaultdict(SmoothedValue)

    def update(self, **values) -> None:
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            self.meters[name].update(value)

    def synchronize_between_processes(self) -> None:
        for meter in self.meters.values():
            meter.synchronize_between_processes()

    def log_every(self, iterable, print_freq: int, header: str = ""):
        begin = time.time()
        for number, each in enumerate(iterable):
            yield each
            if number % print_freq == 0:
                print(f"{header} rank {get_rank()} step {number} {time.time() - begin:.1f} s", flush=True)
