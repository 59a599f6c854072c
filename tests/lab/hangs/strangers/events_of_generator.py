"""The loop is a generator of events: an evaluation comes after so many tokens, counted by each for itself."""

# mypy: ignore-errors
import dataclasses
import sys
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclasses.dataclass
class Settings:
    tokens_per_evaluation: int = 600
    batch: int = 4
    dim: int = 16
    same_lengths: bool = "--healthy" in sys.argv


class Packed:
    """Sequences of a corpus, packed in batches."""

    def __init__(self, settings, rank):
        self.settings = settings
        self.longest = 32 if settings.same_lengths or rank != 1 else 40

    def __iter__(self):
        while True:
            yield torch.rand(self.settings.batch, self.longest, self.settings.dim)


class Session:
    def __init__(self, settings):
        self.settings = settings
        self.rank = dist.get_rank()
        self.data = Packed(settings, self.rank)
        self.model = DDP(torch.nn.Linear(settings.dim, settings.dim))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.tokens = 0

    def events(self) -> Iterator[tuple]:
        due = self.settings.tokens_per_evaluation
        for number, batch in enumerate(self.data):
            yield "batch", number, batch
            self.tokens += batch.shape[0] * batch.shape[1]
            if self.tokens >= due:
                due += self.settings.tokens_per_evaluation
                yield "evaluate", number, None

    def on_batch(self, number, batch):
        time.sleep(0.2)
        self.optimizer.zero_grad()
        self.model(batch).mean().backward()
        self.optimizer.step()
        print(f"rank {self.rank} step {number}", flush=True)

    def on_evaluate(self, number, _):
        scores = [None] * dist.get_world_size()
        dist.all_gather_object(scores, {"after": number, "score": torch.rand(()).item()})
        if self.rank == 0:
            print(f"scores after {number}: {scores}", flush=True)

    def run(self):
        for kind, number, payload in self.events():
            getattr(self, f"on_{kind}")(number, payload)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Session(Settings()).run()
