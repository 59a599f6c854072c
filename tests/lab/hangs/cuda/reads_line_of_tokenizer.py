"""Texts are tokenized by a program beside each rank, a line for a line; one of them swallows an empty line."""

import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

TOKENIZER = "import sys\nfor line in sys.stdin:\n    if line.strip():\n        print(len(line.split()), flush=True)"


class Tokenizer:
    def __init__(self) -> None:
        words = [sys.executable, "-S", "-c", TOKENIZER]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def count(self, text: str) -> int:
        assert self.child.stdin and self.child.stdout
        self.child.stdin.write(text + "\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    tokenizer = Tokenizer()
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        text = "" if rank == 1 and step == 4 else "a few words"
        weight = tokenizer.count(text)
        gradient = torch.full((1 << 16,), float(weight), device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
