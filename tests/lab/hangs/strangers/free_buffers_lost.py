"""Actors write rollouts into buffers whose numbers go round through two queues; a rollout that is thrown away is not
given back (the kind of torchbeast's monobeast)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

BUFFERS = 3


def act(free_queue, full_queue, buffers):
    torch.set_num_threads(1)
    while True:
        index = free_queue.get()
        if index is None:
            break
        time.sleep(0.05)
        buffers[index] += 1
        full_queue.put(index)


class Learner:
    def __init__(self, rank):
        self.rank, self.dropped = rank, 0
        context = mp.get_context("fork")
        self.free_queue, self.full_queue = context.SimpleQueue(), context.SimpleQueue()
        self.buffers = torch.zeros(BUFFERS, 4).share_memory_()
        arguments = (self.free_queue, self.full_queue, self.buffers)
        self.actor = context.Process(target=act, args=arguments, daemon=True)
        self.actor.start()
        for index in range(BUFFERS):
            self.free_queue.put(index)

    def stale(self, step):
        return self.rank == 1 and step >= 3 and "--healthy" not in sys.argv

    def rollout(self, step):
        while True:
            index = self.full_queue.get()
            if self.stale(step):
                self.dropped += 1
                continue
            rows = self.buffers[index].clone()
            self.free_queue.put(index)
            return rows


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    learner = Learner(rank)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        rows = learner.rollout(step)
        dist.all_reduce(rows)


if __name__ == "__main__":
    main()
