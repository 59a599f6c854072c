"""A replay buffer yields batches, and before it one collects new episodes together when the own buffer is low."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Replay:
    def __init__(self, rank, low):
        self.rank, self.low, self.rows, self.given = rank, low, list(range(40)), 0

    def collect(self):
        returns = [None] * dist.get_world_size()
        dist.all_gather_object(returns, len(self.rows))
        self.rows += range(max(returns) + 8)
        yield torch.tensor([float(sum(returns))])

    def batches(self):
        while True:
            if len(self.rows) < self.low:
                yield from self.collect()
            take = 4 if self.rank == 0 or "--healthy" in sys.argv else 5
            rows, self.rows = self.rows[:take], self.rows[take:]
            self.given += 1
            yield torch.tensor([float(sum(rows))])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    replay = Replay(rank, low=8)
    for step, batch in enumerate(replay.batches()):
        time.sleep(0.2)
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
