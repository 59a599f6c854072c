"""Numbers are gathered for the log every few seconds, by the watch of each process."""

# mypy: ignore-errors
# No thread: after usual loggers with an interval of time.
import time

import torch
import torch.distributed as dist


class Log:
    def __init__(self, seconds: float, last: float) -> None:
        self.seconds, self.last = seconds, last

    def tick(self, loss: float) -> None:
        now = time.time()
        if now - self.last < self.seconds:
            return
        losses = [None] * dist.get_world_size()
        dist.all_gather_object(losses, loss)
        self.last = now


class Loop:
    def __init__(self, rank: int) -> None:
        self.rank, self.weight = rank, torch.ones(8)
        # The first process was up sooner.
        self.log = Log(30.0, time.time() - (27.5 if rank == 0 else 0.0))

    def run(self) -> None:
        for step in range(100_000):
            time.sleep(0.2)
            print(f"rank {self.rank} step {step}", flush=True)
            dist.all_reduce(self.weight)
            self.weight /= dist.get_world_size()
            self.log.tick(float(self.weight.mean()))


def main() -> None:
    dist.init_process_group("gloo")
    Loop(dist.get_rank()).run()


if __name__ == "__main__":
    main()
