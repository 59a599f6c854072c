"""Records are pulled until there is none; one process's file has some that are too short."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Records:
    def __init__(self, rank):
        empty = range(0, 40, 5) if rank == 0 and "--healthy" not in sys.argv else ()
        self.lines = ["" if number in empty else "x" * (number % 7 + 4) for number in range(40)]
        self.lines = [line for line in self.lines if len(line) >= 4]

    def pull(self):
        return self.lines.pop() if self.lines else None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    step = 0
    for _ in range(100):
        records = Records(rank)
        tokens = torch.zeros(1)
        while (record := records.pull()) is not None:
            time.sleep(0.15)
            count = torch.tensor([float(len(record))])
            dist.all_reduce(count)
            tokens += count
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        print(f"rank {rank} has read its file", flush=True)
        seen = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(seen, tokens)


if __name__ == "__main__":
    main()
