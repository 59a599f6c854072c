"""A property of the trainer, made of a private field."""

import os

import torch
import torch.distributed as dist


class Engine:
    def __init__(self) -> None:
        dist.init_process_group("gloo")
        self._local = int(os.environ["LOCAL_RANK"])

    @property
    def leads(self) -> bool:
        return self._local == 0

    def evaluate(self) -> None:
        scores = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(scores, torch.ones(1))

    def run(self) -> None:
        for step in range(1000):
            print(f"rank {self._local} step {step}", flush=True)
            dist.broadcast(torch.ones(4), src=0)
            if step and step % 3 == 0:
                if self.leads:
                    self.evaluate()


if __name__ == "__main__":
    Engine().run()
