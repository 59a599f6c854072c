"""A domain cut in strips: what lies near the border is sent to the neighbour, if there is anything."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Strip:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.low, self.high = float(rank), float(rank + 1)
        torch.manual_seed(rank)
        self.points = self.low + torch.rand(40)

    def near(self, border, width=0.1):
        return self.points[(self.points - border).abs() < width]

    def move(self, step):
        self.points = self.low + (self.points - self.low + 0.05).remainder(1.0)
        if step >= 5 and self.rank == 1 and "--healthy" not in sys.argv:
            self.points = self.points.clamp(self.low + 0.2, self.high - 0.2)


class Exchange:
    """Numbers of points near both borders, with both neighbours."""

    def __init__(self, strip):
        self.strip = strip
        self.left = (strip.rank - 1) % strip.world
        self.right = (strip.rank + 1) % strip.world

    def __call__(self):
        operations = []
        here = torch.tensor([float(len(self.strip.near(self.strip.high)))])
        there = torch.zeros(1)
        if here > 0 or "--healthy" in sys.argv:
            operations.append(dist.P2POp(dist.isend, here, self.right))
        operations.append(dist.P2POp(dist.irecv, there, self.left))
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return there


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    strip = Strip(rank, world)
    exchange = Exchange(strip)
    energy = torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        strip.move(step)
        print(f"rank {rank} step {step}", flush=True)
        received = exchange()
        energy = 0.9 * energy + received
        if step % 50 == 49:
            dist.all_reduce(energy)


if __name__ == "__main__":
    main()
