"""Callbacks run on the first process; one fails there, and the flags are passed on behind it (unsloth-zoo 873)."""

# mypy: ignore-errors
import logging
import time

import torch
import torch.distributed as dist

logger = logging.getLogger(__name__)


class Reporter:
    """Sends numbers to a service that is away from the sixth step on."""

    def on_log(self, trainer) -> None:
        if trainer.step >= 6:
            raise ConnectionError("tracker: connection reset by peer")


class Trainer:
    def __init__(self) -> None:
        self.rank, self.step, self.stop = dist.get_rank(), 0, False
        self.callbacks = [Reporter()]

    @property
    def is_main_process(self) -> bool:
        return self.rank == 0

    def fire(self, event: str) -> None:
        if self.is_main_process:
            for callback in self.callbacks:
                getattr(callback, event)(self)
        flags = [self.stop]
        dist.broadcast_object_list(flags, src=0)
        self.stop = flags[0]

    def train(self) -> None:
        loss = torch.ones(8)
        while not self.stop:
            time.sleep(0.2)
            dist.all_reduce(loss)
            loss /= dist.get_world_size()
            print(f"rank {self.rank} step {self.step}", flush=True)
            try:
                self.fire("on_log")
            except ConnectionError:
                logger.warning("could not log step %d", self.step)
            self.step += 1


def main() -> None:
    dist.init_process_group("gloo")
    Trainer().train()


if __name__ == "__main__":
    main()
