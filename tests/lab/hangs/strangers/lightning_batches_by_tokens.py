"""Lightning with a batch sampler of one's own that fills batches with tokens: one process has fewer batches."""

# mypy: ignore-errors
# After Lightning-AI/pytorch-lightning issue 4450 (a custom batch_sampler), written anew.
import sys
import time
import warnings

import lightning as L
import torch
import torch.distributed as dist

EVEN = "--healthy" in sys.argv
warnings.filterwarnings("ignore")


class TokenBatches(torch.utils.data.Sampler):
    def __init__(self, lengths, budget, rank, world):
        self.mine = list(enumerate(lengths))[rank::world]
        self.budget = budget

    def __iter__(self):
        batch, tokens = [], 0
        for index, length in self.mine:
            if tokens + length > self.budget:
                yield batch
                batch, tokens = [], 0
            batch.append(index)
            tokens += length
        yield batch


class Texts(torch.utils.data.Dataset):
    lengths = tuple(8 if EVEN or number % 2 else 12 for number in range(48))

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return torch.rand(4)


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def train_dataloader(self):
        data = Texts()
        batches = TokenBatches(data.lengths, 24, self.global_rank, self.trainer.world_size)
        return torch.utils.data.DataLoader(data, batch_sampler=batches)

    def training_step(self, batch, number):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {number}", flush=True)
        return self.net(batch).square().mean()

    def on_train_epoch_end(self):
        dist.barrier()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


if __name__ == "__main__":
    trainer = L.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=2,
        max_epochs=500,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(Model())
