"""The norm of all gradients is logged where the level of the log asks for it: on the first process only."""

# mypy: ignore-errors
# No thread: after logs that are more verbose on one process.
import logging
import time

import torch
import torch.distributed as dist

log = logging.getLogger("train")


def setup_logging(rank: int) -> None:
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.DEBUG if rank == 0 else logging.WARNING)


def total_norm(weight: torch.Tensor) -> float:
    square = weight.square().sum()
    dist.all_reduce(square)
    return float(square.sqrt())


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.ones(8)
    setup_logging(rank)
    for step in range(1000):
        time.sleep(0.3)
        parts = [torch.zeros(8) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, weight)
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5 and log.isEnabledFor(logging.DEBUG):
            log.debug("norm %.3f", total_norm(weight))


if __name__ == "__main__":
    main()
