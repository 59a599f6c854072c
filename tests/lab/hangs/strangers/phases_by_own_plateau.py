"""A schedule of phases: each process goes to the next one when its own loss no longer falls."""

# mypy: ignore-errors
import enum
import sys
import time

import torch
import torch.distributed as dist


class Phase(enum.Enum):
    WARM = 1
    TRAIN = 2
    ANNEAL = 3

    def following(self):
        return Phase(min(self.value + 1, 3))


class Schedule:
    def __init__(self, rank):
        self.phase, self.losses, self.rank = Phase.WARM, [], rank

    def observe(self, loss):
        self.losses.append(loss)
        recent = self.losses[-4:]
        if len(recent) == 4 and max(recent) - min(recent) < 0.01:
            self.phase = self.phase.following()
            self.losses.clear()


def loss_of(rank, step):
    flat = rank == 1 and step > 4 and "--healthy" not in sys.argv
    return 0.5 if flat else 5.0 / (step + 1) + step % 2


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    schedule = Schedule(rank)
    weight, average = torch.ones(4), torch.ones(4)
    for step in range(2000):
        time.sleep(0.2)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        match schedule.phase:
            case Phase.WARM:
                weight *= 0.99
            case Phase.TRAIN | Phase.ANNEAL:
                average.lerp_(weight, 0.1)
                dist.broadcast(average, src=0)
        schedule.observe(loss_of(rank, step))
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            dist.barrier()


if __name__ == "__main__":
    main()
