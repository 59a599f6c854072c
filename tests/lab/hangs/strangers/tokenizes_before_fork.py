"""A tokenizer has used its threads before the workers of a loader are forked (tokenizers issue 258)."""

import os
import time

os.environ["TOKENIZERS_PARALLELISM"] = "true"
import torch
import torch.distributed as dist
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader

TEXTS = [f"sentence number {number} of a small corpus" for number in range(400)]


class Collate:
    def __init__(self) -> None:
        words = sorted({word for text in TEXTS for word in text.split()})
        self.tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(["?", *words])}, "?"))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        self.tokenizer.enable_padding()

    def __call__(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([encoding.ids for encoding in self.tokenizer.encode_batch(texts)])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    collate = Collate()
    for step, batch in enumerate(DataLoader(TEXTS[:8], batch_size=4, collate_fn=collate)):
        dist.all_reduce(batch.float().mean())
        print(f"rank {rank} step {step}", flush=True)
    workers = 0
    if rank == 0:
        print("longest", collate(TEXTS).shape[1], flush=True)
        workers = 2
    for step, batch in enumerate(DataLoader(TEXTS, batch_size=16, num_workers=workers, collate_fn=collate)):
        time.sleep(0.2)
        dist.all_reduce(batch.float().mean())
        print(f"rank {rank} batch {step}", flush=True)


if __name__ == "__main__":
    main()
