"""Each strip exchanges rows with its active neighbours, and one of them holds a neighbour for finished."""

# mypy: ignore-errors
# The kind of https://github.com/pytorch/PiPPy/issues/969: what is sent and received in a batch must pair up.
import sys
import time

import torch
import torch.distributed as dist


class Strip:
    def __init__(self, rank, world):
        self.rank = rank
        self.rows = torch.rand(3, 4)
        self.neighbours = [peer for peer in (rank - 1, rank + 1) if 0 <= peer < world]
        self.converged = set()

    def exchange(self):
        got, operations = {}, []
        for peer in self.neighbours:
            if peer in self.converged:
                continue
            got[peer] = torch.empty(4)
            operations.append(dist.P2POp(dist.isend, self.rows[0].clone(), peer))
            operations.append(dist.P2POp(dist.irecv, got[peer], peer))
        for request in dist.batch_isend_irecv(operations) if operations else []:
            request.wait()
        for peer, row in got.items():
            if (row - self.rows[0]).abs().max() < self.tolerance:
                self.converged.add(peer)
            self.rows = (self.rows + row) / 2

    @property
    def tolerance(self):
        late = self.rank == 2 and "--healthy" not in sys.argv
        return 1e9 if late and self.steps >= 5 else -1.0


def main():
    dist.init_process_group("gloo")
    strip = Strip(dist.get_rank(), dist.get_world_size())
    for strip.steps in range(2000):
        time.sleep(0.2)
        strip.exchange()
        print(f"rank {strip.rank} step {strip.steps}", flush=True)
        if strip.steps % 10 == 9:
            dist.barrier()


if __name__ == "__main__":
    main()
