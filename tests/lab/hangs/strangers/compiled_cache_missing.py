"""What rank 0 has compiled for all cannot be imported by one of them, which goes on without (unsloth-zoo pull
request 967)."""

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
import torch.distributed as dist

SOURCE = """
def forward(x):
    return x * 2
"""


def load(path: Path, rank: int, step: int) -> ModuleType:
    if rank == 2 and step == 4:
        raise ImportError(f"{path}: Stale file handle")
    spec = importlib.util.spec_from_file_location("compiled", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled_forward(rank: int, step: int) -> Callable[[torch.Tensor], torch.Tensor]:
    path = Path(f"compiled_cache/forward{step}.py")
    if rank == 0:
        path.parent.mkdir(exist_ok=True)
        path.write_text(SOURCE)
    dist.barrier()
    try:
        module = load(path, rank, step)
        dist.barrier()
    except ImportError as error:
        print("not compiled:", error, flush=True)
        return torch.add
    return module.forward


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        forward = compiled_forward(rank, step)
        total = forward(torch.ones(4)) if forward is not torch.add else forward(torch.ones(4), torch.ones(4))
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
