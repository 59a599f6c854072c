"""Scores are computed by a multiprocessing pool; on one rank the kernel has killed a worker with its task."""

import multiprocessing
import os
import signal

import torch
import torch.distributed as dist


def score(text: str) -> int:
    if text.startswith("huge"):
        os.kill(os.getpid(), signal.SIGKILL)  # what the OOM killer does
    return len(text)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in range(1000):
            print(f"rank {rank} step {step}", flush=True)
            texts = ["small"] * 8
            if rank == 1 and step == 3:
                texts[5] = "huge document"
            scores = pool.map(score, texts, chunksize=1)
            dist.all_reduce(torch.tensor(scores))


if __name__ == "__main__":
    main()
