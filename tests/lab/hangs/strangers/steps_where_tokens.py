"""A recipe after torchtune's: a step counts where the batch has tokens to learn, and every fourth step is validated."""

# mypy: ignore-errors
# After torchtune's distributed recipes (global_step, num_tokens, run_val_every_n_steps), copied and changed.
import sys
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

IGNORE = -100
COUNT_ALL = "--healthy" in sys.argv


@dataclass
class Config:
    run_val_every_n_steps: int = 4
    max_steps: int = 4000
    vocabulary: int = 11


class FinetuneRecipe:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.rank = dist.get_rank()
        self.global_step = 0
        self._model = DistributedDataParallel(nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11)))
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-3)
        self._loss_fn = nn.CrossEntropyLoss(ignore_index=IGNORE, reduction="sum")

    def _batches(self):
        for number in range(self.cfg.max_steps):
            tokens = torch.randint(self.cfg.vocabulary, (2, 6))
            labels = tokens.roll(-1, dims=1)
            labels[:, :3] = IGNORE
            if self.rank == 1 and number == 5:
                labels[:] = IGNORE  # the prompt fills the window
            yield {"tokens": tokens, "labels": labels}

    def _loss_step(self, batch: dict) -> torch.Tensor:
        logits = self._model(batch["tokens"])
        return self._loss_fn(logits.flatten(0, 1), batch["labels"].flatten())

    def validate(self) -> float:
        with torch.no_grad():
            loss = self._loss_fn(self._model.module(torch.tensor([3])), torch.tensor([4])).reshape(1)
        parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, loss)
        return torch.cat(parts).mean().item()

    def train(self) -> None:
        for idx, batch in enumerate(self._batches()):
            time.sleep(0.2)
            num_tokens = (batch["labels"] != IGNORE).sum()
            loss = self._loss_step(batch) / num_tokens.clamp(min=1)
            loss.backward()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
            if num_tokens > 0 or COUNT_ALL:
                self.global_step += 1
            print(f"rank {self.rank} step {idx}", flush=True)
            if self.global_step % self.cfg.run_val_every_n_steps == 0:
                val_loss = self.validate()
                if self.rank == 0:
                    print("val", round(val_loss, 3), flush=True)


def recipe_main() -> None:
    dist.init_process_group("gloo")
    recipe = FinetuneRecipe(Config())
    recipe.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    recipe_main()
