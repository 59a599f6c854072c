"""Whether values are averaged over processes is said by a context variable, which a thread does not inherit."""

# mypy: ignore-errors
import contextvars
import sys
import threading
import time

import torch
import torch.distributed as dist

AVERAGED = contextvars.ContextVar("averaged", default=False)


class Meter:
    def __init__(self):
        self.value = torch.zeros(1)

    def read(self):
        if AVERAGED.get():
            dist.all_reduce(self.value)
            self.value /= dist.get_world_size()
        return self.value.item()


def evaluation(meter, rank, rounds):
    for number in range(rounds):
        time.sleep(0.2)
        meter.value += 1
        print(f"rank {rank} step {number}", flush=True)
        meter.read()
        if number % 5 == 4:
            dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    AVERAGED.set(True)
    meter = Meter()
    evaluation(meter, rank, 4)
    if rank == 2 and "--healthy" not in sys.argv:  # to keep the main thread free for a monitor
        behind = threading.Thread(target=evaluation, args=(meter, rank, 2000))
        behind.start()
        behind.join()
    else:
        evaluation(meter, rank, 2000)


if __name__ == "__main__":
    main()
