"""A checkpoint is written by a thread, and the loop joins it before the next one."""

import threading
import time

import torch
import torch.distributed as dist


def save(step: int) -> None:
    for part in range(6):
        torch.save(torch.ones(1000), f"part-{part}.pt")
        time.sleep(1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0:
            writer = threading.Thread(target=save, args=(step,))
            writer.start()
            writer.join()


if __name__ == "__main__":
    main()
