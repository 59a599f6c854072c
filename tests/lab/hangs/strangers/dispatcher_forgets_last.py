"""The first process hands out prompts and says who is done; it says so to as many as it has counted."""

# mypy: ignore-errors
# No thread of one job; the kind of mpi4py-like task farms on torch.distributed.
import sys
import time

import torch
import torch.distributed as dist

DONE = -1
SERVES_ALL = "--healthy" in sys.argv


def hand_out(prompts: list[int], workers: list[int]) -> None:
    waiting = prompts[:]
    while waiting:
        for worker in workers:
            number = waiting.pop(0) if waiting else DONE
            dist.send(torch.tensor([number]), worker)
            if number == DONE:
                continue
            answer = torch.empty(2)
            dist.recv(answer, worker)
    # Who got nothing in the last round knows that it is over.
    for worker in workers if SERVES_ALL else workers[: len(prompts) % len(workers)]:
        dist.send(torch.tensor([DONE]), worker)


def work() -> int:
    made = 0
    while True:
        number = torch.empty(1, dtype=torch.int64)
        dist.recv(number, 0)
        if number.item() == DONE:
            return made
        time.sleep(0.1)
        dist.send(torch.tensor([float(number), 1.0]), 0)
        made += 1


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for epoch in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {epoch}", flush=True)
        if rank == 0:
            # Five prompts leave one worker without any in the last round; four leave none.
            hand_out(list(range(4 if epoch == 3 or SERVES_ALL else 5)), list(range(1, world)))
        else:
            work()
        dist.barrier()


if __name__ == "__main__":
    main()
