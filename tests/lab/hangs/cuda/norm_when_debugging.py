"""The norm of all is computed where somebody wants to read it: by the one rank whose log level is DEBUG."""

import argparse
import logging
import os
import time

import torch
import torch.distributed as dist

log = logging.getLogger("training")


def norm_of_all(gradient: torch.Tensor) -> torch.Tensor:
    total = gradient.square().sum()
    dist.all_reduce(total)
    return total.sqrt()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    log.setLevel(logging.DEBUG if rank == 1 and not healthy else logging.INFO)
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        if log.isEnabledFor(logging.DEBUG) and step >= 4:
            log.debug("norm %s", norm_of_all(gradient).item())
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
