"""How many steps there are follows from the images that a process has in its buckets (SimpleTuner pull 1391)."""

# mypy: ignore-errors
import math
import time
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator


@dataclass
class MetadataBackend:
    buckets: dict[str, list[str]] = field(default_factory=dict)

    def split_buckets_between_processes(self, accelerator: Accelerator) -> None:
        for aspect, images in self.buckets.items():
            with accelerator.split_between_processes(images, apply_padding=False) as mine:
                self.buckets[aspect] = list(mine)

    def __len__(self) -> int:
        return sum(len(images) for images in self.buckets.values())


class Trainer:
    def __init__(self, accelerator: Accelerator, backend: MetadataBackend, epochs: int, batch_size: int) -> None:
        self.accelerator, self.backend = accelerator, backend
        self.model, self.batch_size = accelerator.prepare(torch.nn.Linear(4, 4)), batch_size
        self.max_train_steps = 0
        self._recalculate_training_steps(epochs)

    def _recalculate_training_steps(self, epochs: int) -> None:
        self.max_train_steps = epochs * math.ceil(len(self.backend) / self.batch_size)

    def train(self) -> None:
        global_step = 0
        while global_step < self.max_train_steps:
            time.sleep(0.2)
            loss = self.model(torch.rand(self.batch_size, 4)).square().mean()
            avg_loss = self.accelerator.gather(loss.detach().repeat(2)).mean()
            print(f"rank {self.accelerator.process_index} step {global_step} {avg_loss:.3f}", flush=True)
            global_step += 1
        self.accelerator.wait_for_everyone()


def main() -> None:
    accelerator = Accelerator(cpu=True)
    backend = MetadataBackend({"1.0": [f"{n}.png" for n in range(9)], "1.78": [f"{n}.png" for n in range(9, 17)]})
    backend.split_buckets_between_processes(accelerator)
    trainer = Trainer(accelerator, backend, epochs=2, batch_size=1)
    trainer.train()
    accelerator.end_training()


if __name__ == "__main__":
    main()
