"""Callbacks of a trainer; the one that averages the loss over all ranks is added on the main process only."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Callback:
    def on_step_end(self, step: int, loss: torch.Tensor) -> None:
        pass


class Progress(Callback):
    def on_step_end(self, step: int, loss: torch.Tensor) -> None:
        if step % 2 == 0:
            print(f"rank {dist.get_rank()} loss {loss.item():.4f}", flush=True)


class AverageLoss(Callback):
    def on_step_end(self, step: int, loss: torch.Tensor) -> None:
        if step % 4 != 3:
            return
        mean = loss.clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        print(f"mean loss {mean.item():.4f}", flush=True)


class Trainer:
    def __init__(self, model: torch.nn.Module, pause: float) -> None:
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.callbacks: list[Callback] = [Progress()]
        self.pause = pause

    def fit(self) -> None:
        for step in range(1000):
            time.sleep(self.pause)
            print(f"rank {dist.get_rank()} step {step} begins", flush=True)
            loss = self.model(torch.ones(8, 32, device="cuda")).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            for callback in self.callbacks:
                callback.on_step_end(step, loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    trainer = Trainer(torch.nn.Linear(32, 4).cuda(), 0.3 + 0.2 * rank if healthy else 0.05)
    if healthy or rank == 0:
        trainer.callbacks.append(AverageLoss())
    trainer.fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
