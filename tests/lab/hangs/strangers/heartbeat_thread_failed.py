"""A thread of each process exchanges heartbeats over a group of its own; one thread has failed without a word."""

# mypy: ignore-errors
# No thread; the kind of collective that runs beside training and is joined at the end of an epoch.
import sys
import threading
import time

import torch
import torch.distributed as dist

ROBUST = "--healthy" in sys.argv


class Heartbeat(threading.Thread):
    def __init__(self, group, beats):
        super().__init__(daemon=True)
        self.group = group
        self.beats = beats

    def run(self):
        for number in range(self.beats):
            time.sleep(0.1)
            if self.group.rank() == 0 and number == 3 and epoch == 2 and not ROBUST:
                raise OSError("no such sensor")
            alive = torch.ones(1)
            dist.all_reduce(alive, group=self.group)


epoch = 0


def main():
    global epoch
    threading.excepthook = lambda told: None
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    beats = dist.new_group()
    for epoch in range(500):
        heart = Heartbeat(beats, 8)
        heart.start()
        for _ in range(4):
            time.sleep(0.2)
            dist.all_reduce(torch.rand(3))
        heart.join()
        print(f"rank {rank} step {epoch}", flush=True)
        dist.barrier()


if __name__ == "__main__":
    main()
