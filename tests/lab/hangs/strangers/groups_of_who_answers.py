"""Each process makes the group of those that it holds for alive, and one has missed a heartbeat."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Members:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.seen = dict.fromkeys(range(world), 0)
        self.groups = {
            tuple(sorted({0, 1, 2} - {gone})): dist.new_group(sorted({0, 1, 2} - {gone})) for gone in (1, 2, None)
        }

    def heartbeat(self, step):
        late = self.rank == 0 and step >= 5 and "--healthy" not in sys.argv
        for peer in self.seen:
            self.seen[peer] = step - 5 if late and peer == 2 else step

    def alive(self, step):
        return tuple(peer for peer, seen in self.seen.items() if step - seen < 3)


def main():
    dist.init_process_group("gloo")
    members = Members(dist.get_rank(), dist.get_world_size())
    for step in range(2000):
        time.sleep(0.2)
        members.heartbeat(step)
        loss = torch.rand(1)
        dist.all_reduce(loss, group=members.groups[members.alive(step)])
        print(f"rank {members.rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
