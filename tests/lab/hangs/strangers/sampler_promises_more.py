"""Batches in which no text comes twice: the sampler says how many there may be, and has fewer where texts repeat."""

# mypy: ignore-errors
# After https://github.com/huggingface/sentence-transformers/issues/3348.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Sampler


class Pairs(Dataset):
    def __init__(self, rank):
        repeats = 1 if "--healthy" in sys.argv or rank == 0 else 6
        self.texts = [f"text {index // repeats}" for index in range(48)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return torch.full((6,), float(hash(self.texts[index]) % 97)), torch.rand(6)


class NoRepeats(Sampler):
    def __init__(self, data, size):
        self.data, self.size = data, size

    def __len__(self):
        return len(self.data) // self.size

    def __iter__(self):
        remaining = dict.fromkeys(range(len(self.data)))
        while remaining:
            texts, batch = set(), []
            for index in remaining:
                text = self.data.texts[index]
                if text in texts:
                    continue
                texts.add(text)
                batch.append(index)
                if len(batch) == self.size:
                    yield batch
                    break
            else:
                return
            for index in batch:
                del remaining[index]


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(6, 3)

    def forward(self, first, second):
        return (self.project(first) * self.project(second)).sum(1)


def train(model, loader, optimizer, rank, state):
    model.train()
    for anchors, positives in loader:
        time.sleep(0.15)
        optimizer.zero_grad()
        (-model(anchors, positives).mean()).backward()
        optimizer.step()
        print(f"rank {rank} step {state['step']} of {len(loader)}", flush=True)
        state["step"] += 1


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Pairs(rank)
    loader = DataLoader(data, batch_sampler=NoRepeats(data, 6))
    model = DistributedDataParallel(Encoder())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    state = {"step": 0}
    for _ in range(300):
        train(model, loader, optimizer, rank, state)
        norms = [None] * dist.get_world_size()
        dist.all_gather_object(norms, model.module.project.weight.norm().item())


if __name__ == "__main__":
    main()
