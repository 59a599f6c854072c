"""A child is forked while a thread holds the lock of a cache; the child's copy of the lock is never given back."""

import argparse
import multiprocessing
import os
import threading
import time

import torch
import torch.distributed as dist


class Vocabulary:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.words = {"a": 0}

    def refresh(self, seconds: float) -> None:
        with self.lock:
            time.sleep(seconds)
            self.words["b"] = 1

    def number(self, word: str) -> int:
        with self.lock:
            return self.words[word]


def tokenize(vocabulary: Vocabulary) -> None:
    vocabulary.number("a")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    vocabulary = Vocabulary()
    fork = multiprocessing.get_context("fork")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4:
            slow = 2.0 if rank == 1 and not healthy else 0.0
            refreshing = threading.Thread(target=vocabulary.refresh, args=(slow,))
            refreshing.start()
            time.sleep(0.5)
            child = fork.Process(target=tokenize, args=(vocabulary,))
            child.start()
            child.join()
            refreshing.join()
        gradient = torch.ones(1 << 18, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
