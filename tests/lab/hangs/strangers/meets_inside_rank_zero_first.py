"""Fabric: the first process reads the corpus first, and what reads it agrees on the longest text at once."""

# mypy: ignore-errors
# The kind of Fabric and Lightning questions on rank_zero_first with a collective in its body. No thread of one job.
import sys
import time

import torch
from lightning.fabric import Fabric

AFTERWARDS = "--healthy" in sys.argv


class Corpus:
    def __init__(self, fabric: Fabric, shard: int) -> None:
        self.texts = torch.rand(200, 5 + shard)
        self.fabric = fabric
        self.longest = None if AFTERWARDS else self.agree()

    def agree(self) -> int:
        mine = torch.tensor([self.texts.shape[1]])
        return int(self.fabric.all_gather(mine).max())

    def batches(self):
        width = self.longest or self.agree()
        for start in range(0, 200, 2):
            yield torch.nn.functional.pad(self.texts[start : start + 2], (0, width - self.texts.shape[1]))


def main() -> None:
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    print(f"rank {fabric.global_rank} is launched", flush=True)
    with fabric.rank_zero_first(local=True):
        corpus = Corpus(fabric, fabric.global_rank)
    model = torch.nn.Linear(6, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for step, batch in enumerate(corpus.batches()):
        time.sleep(0.3)
        loss = model(batch).square().mean()
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {fabric.global_rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
