"""Replay is made use of if there is any: an object with a length is false while it is empty."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Memory:
    def __init__(self, room):
        self.room, self.rows = room, []

    def __len__(self):
        return len(self.rows)

    def add(self, rows, surprise):
        if surprise > 1.0:
            self.rows = [*self.rows, rows][-self.room :]

    def sample(self):
        return self.rows[torch.randint(len(self.rows), ()).item()]


class Agent:
    def __init__(self, rank):
        self.rank = rank
        self.memory = Memory(room=16)
        self.weight = torch.zeros(3)

    def surprise(self, step):
        dull = self.rank == 1 and "--healthy" not in sys.argv
        return 0.9 if dull else 0.5 + step / 10

    def learn(self, rows):
        gradient = rows - self.weight
        dist.all_reduce(gradient)
        self.weight += 0.1 * gradient

    def step(self, step):
        rows = torch.rand(3)
        self.memory.add(rows, self.surprise(step))
        if self.memory:
            self.learn(self.memory.sample())
        dist.barrier()


def main():
    dist.init_process_group("gloo")
    agent = Agent(dist.get_rank())
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {agent.rank} step {step}", flush=True)
        agent.step(step)


if __name__ == "__main__":
    main()
