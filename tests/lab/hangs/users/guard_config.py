"""Which ranks log is a list of the configuration."""

from dataclasses import dataclass, field

import torch
import torch.distributed as dist


@dataclass
class Config:
    who: int = 0
    log_every: int = 4
    loggers: list[int] = field(default_factory=lambda: [0])


def metrics(value: torch.Tensor) -> list[float]:
    parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, value)
    return [part.item() for part in parts]


def main() -> None:
    dist.init_process_group("gloo")
    cfg = Config(who=dist.get_rank())
    for step in range(1000):
        print(f"rank {cfg.who} step {step}", flush=True)
        dist.all_reduce(torch.ones(32))
        if step % cfg.log_every == 3 and cfg.who in cfg.loggers:
            print(metrics(torch.ones(1)))


if __name__ == "__main__":
    main()
