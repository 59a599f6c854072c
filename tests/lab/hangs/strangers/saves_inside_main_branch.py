"""A trainer saves on the main process; what saves waits for everyone (audiolm-pytorch 210)."""

# mypy: ignore-errors
import time
from pathlib import Path

import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self, folder: Path, save_every: int = 5) -> None:
        self.accelerator = Accelerator(cpu=True)
        self.folder, self.save_every, self.steps = folder, save_every, 0
        model = torch.nn.Linear(8, 2)
        self.model, self.optimizer = self.accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))

    @property
    def is_main(self) -> bool:
        return self.accelerator.is_main_process

    def save(self, name: str) -> None:
        self.accelerator.wait_for_everyone()
        torch.save(self.accelerator.unwrap_model(self.model).state_dict(), self.folder / name)

    def train_step(self) -> float:
        time.sleep(0.2)
        loss = self.model(torch.randn(4, 8)).square().mean()
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.is_main and self.steps and not self.steps % self.save_every:
            self.save(f"model.{self.steps}.pt")
        print(f"rank {self.accelerator.process_index} step {self.steps}", flush=True)
        self.steps += 1
        return loss.item()


def main() -> None:
    trainer = Trainer(Path.cwd())
    while trainer.steps < 1000:
        trainer.train_step()


if __name__ == "__main__":
    main()
