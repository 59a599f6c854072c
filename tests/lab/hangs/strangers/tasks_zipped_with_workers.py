"""Rank 0 sends the others what to evaluate, as many as there are; who gets nothing goes on waiting for it."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Coordinator:
    def __init__(self, world):
        self.workers = range(1, world)

    def tasks(self, step):
        names = ["gsm", "code"]
        return names[:1] if step == 6 and "--healthy" not in sys.argv else names

    def hand_out(self, step):
        for worker, task in zip(self.workers, self.tasks(step), strict=False):
            dist.send_object_list([task, step], dst=worker)


def receive():
    found = [None, None]
    dist.recv_object_list(found, src=0)
    return found[0]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    coordinator = Coordinator(world)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0:
            coordinator.hand_out(step)
            score = torch.zeros(1)
        else:
            score = torch.tensor([float(len(receive()))])
        dist.all_reduce(score)


if __name__ == "__main__":
    main()
