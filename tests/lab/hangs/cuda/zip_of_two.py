"""Text and pictures are read side by side by zip(), which ends with the shorter one: on one rank pictures are fewer."""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist


def texts() -> Iterator[torch.Tensor]:
    for _ in range(1000):
        yield torch.ones(256)


def pictures(count: int) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield torch.ones(1024)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    readable = 1000 if healthy or rank != 2 else 4  # the others could not be decoded
    for step, (text, picture) in enumerate(zip(texts(), pictures(readable), strict=False)):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.cat([text, picture]).cuda()
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    done = torch.ones(1, device="cuda")
    dist.all_reduce(done)
    print("done by", done.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
