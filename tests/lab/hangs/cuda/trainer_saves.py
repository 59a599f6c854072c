"""A Trainer as that of Transformers, whose _save waits for everyone though only the main process comes to it."""

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Arguments(NamedTuple):
    output: Path
    save_steps: int
    healthy: bool
    pause: float

    @property
    def should_save(self) -> bool:
        return self.healthy or int(os.environ["RANK"]) == 0


class Trainer:
    def __init__(self, model: torch.nn.Module, args: Arguments) -> None:
        self.model = DistributedDataParallel(model)
        self.args = args
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def train(self) -> None:
        for step in range(1000):
            time.sleep(self.args.pause)
            print(f"rank {dist.get_rank()} step {step} begins", flush=True)
            loss = self.training_step(torch.ones(8, 64, device="cuda"))
            if step % 2 == 0:
                print({"loss": round(loss.item(), 4), "step": step}, flush=True)
            self._maybe_save(step)

    def training_step(self, inputs: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(inputs).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def _maybe_save(self, step: int) -> None:
        if step and step % self.args.save_steps == 0 and self.args.should_save:
            self._save(self.args.output / f"checkpoint-{step}-{os.getpid()}.pt")

    def _save(self, path: Path) -> None:
        torch.save(self.model.module.state_dict(), path)
        dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    pause = 0.3 + 0.2 * dist.get_rank() if healthy else 0.05
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
    Trainer(model, Arguments(Path.cwd(), 3, healthy, pause)).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
