"""Sequences are packed from a stream of documents, and the stream of one process comes to its end."""

# mypy: ignore-errors
# After https://github.com/sandyresearch/parcae/issues/12: a finite stream ends one process's loop without a word.
import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Documents(IterableDataset):
    """Documents of the files of this process."""

    def __init__(self, files):
        self.files = files
        self.state = {"file": 0}

    def __iter__(self):
        while self.state["file"] < len(self.files):
            for length in self.files[self.state["file"]]:
                yield torch.randint(0, 32, (length,))
            self.state["file"] += 1


class Packed(IterableDataset):
    """Sequences of one length, made of documents."""

    def __init__(self, documents, length):
        self.documents, self.length = documents, length

    def __iter__(self):
        kept = torch.empty(0, dtype=torch.long)
        for document in self.documents:
            kept = torch.cat([kept, document])
            while len(kept) >= self.length:
                yield kept[: self.length]
                kept = kept[self.length :]


def train(args):
    rank = dist.get_rank()
    files = [[9, 7, 16, 12, 4]] * (1500 if args.healthy else 6 + 4 * (1 - rank))
    loader = DataLoader(Packed(Documents(files), 16), batch_size=2)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(32, 8), torch.nn.Linear(8, 32)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for step, tokens in enumerate(loader):
        time.sleep(0.25)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), "last.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--lr", type=float, default=1e-3)
    dist.init_process_group("gloo")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
