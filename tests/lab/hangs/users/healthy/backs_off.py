"""An upload fails now and then and is tried again after six seconds, while the others wait."""

import time

import torch
import torch.distributed as dist


def upload(step: int) -> None:
    for attempt in range(2):
        try:
            if attempt == 0:
                raise ConnectionError("503")
        except ConnectionError:
            time.sleep(6)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step >= 1:
            upload(step)


if __name__ == "__main__":
    main()
