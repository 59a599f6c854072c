"""An index is searched in a forked process, after its parent has used OpenMP's threads (faiss issue 5206)."""

# mypy: ignore-errors
import multiprocessing
import time

import torch
import torch.distributed as dist


class FlatIndex:
    def __init__(self, vectors: torch.Tensor) -> None:
        self.vectors = vectors

    def search(self, query: torch.Tensor) -> int:
        distances = (self.vectors - query).abs().sum(1)
        return int(distances.argmin())


def mine_negatives(index: FlatIndex, answers) -> None:
    answers.put([index.search(torch.randn(64)) for _ in range(3)])


def refresh(index: FlatIndex) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    miner = context.Process(target=mine_negatives, args=(index, answers))
    miner.start()
    miner.join()
    print("negatives", answers.get(), flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(2)
    rank = dist.get_rank()
    index = FlatIndex(torch.randn(20_000, 64))
    for step in range(1000):
        time.sleep(0.2)
        nearest = torch.tensor([index.search(torch.randn(64))])
        dist.all_reduce(nearest)
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 5:
            refresh(index)


if __name__ == "__main__":
    main()
