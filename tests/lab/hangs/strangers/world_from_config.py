"""How many processes there are is taken from the machine's GPUs and not from the launcher (Megatron-LM issue 2458)."""

# mypy: ignore-errors
import os
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class Machine:
    gpus: int = 4


def initialize_distributed(machine: Machine) -> None:
    rank = int(os.environ["LOCAL_RANK"])
    world_size = machine.gpus
    print(f"rank {rank} begins", flush=True)
    dist.init_process_group("gloo", world_size=world_size, rank=rank)


def main() -> None:
    initialize_distributed(Machine())
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {dist.get_rank()} step {step}", flush=True)


if __name__ == "__main__":
    main()
