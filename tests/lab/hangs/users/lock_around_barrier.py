"""The barrier stands inside of the lock: who has the lock waits for those that wait for the lock."""

import filelock
import torch
import torch.distributed as dist


def build_index(step: int) -> None:
    with filelock.FileLock("index.lock"):
        with open("index.txt", "a") as index:
            index.write(f"{step}\n")
        if step >= 3:
            dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(100):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if rank == 1 and step >= 3:
            import time

            time.sleep(0.5)
        build_index(step)


if __name__ == "__main__":
    main()
