"""Callbacks of a small trainer: the stopper sees the validation loss of its own shard."""

# mypy: ignore-errors
# After https://github.com/huggingface/transformers/issues/17478: metrics that differ between processes end one of them.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SHARED = "--healthy" in sys.argv


class Callback:
    def on_epoch_end(self, trainer, metrics):
        pass


class Printer(Callback):
    def on_epoch_end(self, trainer, metrics):
        print(f"rank {trainer.rank} step {trainer.epoch} loss {metrics['val']:.3f}", flush=True)


class Patience(Callback):
    def __init__(self, patience=3, delta=0.001):
        self.patience = patience
        self.delta = delta
        self.best = float("inf")
        self.bad = 0

    def on_epoch_end(self, trainer, metrics):
        if metrics["val"] < self.best - self.delta:
            self.best = metrics["val"]
            self.bad = 0
            return
        self.bad += 1
        if self.bad >= self.patience:
            trainer.stop_training = True


class Trainer:
    def __init__(self, model, loader, callbacks):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.loader = loader
        self.callbacks = callbacks
        self.stop_training = False
        self.epoch = 0

    def validate(self):
        if SHARED or self.rank == 0:
            return 1.0 / (1 + self.epoch)
        return max(0.5, 1.0 / (1 + self.epoch))

    def train_epoch(self):
        for features, target in self.loader:
            time.sleep(0.05)
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(features), target).backward()
            self.optimizer.step()

    def fit(self, epochs):
        for self.epoch in range(epochs):
            self.train_epoch()
            metrics = {"val": self.validate()}
            for callback in self.callbacks:
                callback.on_epoch_end(self, metrics)
            if self.stop_training:
                break
        return self.finish()

    def finish(self):
        dist.barrier()
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), "final.pt")


def main():
    dist.init_process_group("gloo")
    data = TensorDataset(torch.rand(48, 6), torch.rand(48, 1))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 1))
    Trainer(model, loader, [Printer(), Patience(patience=3, delta=0.0 if SHARED else 0.001)]).fit(2000)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
