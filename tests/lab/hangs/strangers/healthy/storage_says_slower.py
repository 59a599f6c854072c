"""A bucket asks for fewer requests; the process tries again later each time, and gets through (marin issue 9213)."""

import random
import time

import torch
import torch.distributed as dist


class SlowDown(Exception):
    pass


def put(attempt: int) -> None:
    time.sleep(0.3)
    if attempt < 4:
        raise SlowDown("please reduce your request rate")


def upload() -> None:
    for attempt in range(10):
        try:
            put(attempt)
            return
        except SlowDown as error:
            pause = min(2.0**attempt, 6.0) * random.uniform(0.9, 1.1)
            print(f"{error}: again in {pause:.1f} s", flush=True)
            time.sleep(pause)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gradient = torch.ones(20)
    for step in range(10_000):
        time.sleep(0.2)
        dist.all_reduce(gradient)
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 2:
            if rank == 1:
                upload()
            dist.barrier()


if __name__ == "__main__":
    main()
