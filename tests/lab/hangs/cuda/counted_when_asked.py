"""The number of tokens of all ranks is counted when it is first asked for; one rank asks earlier, for its log."""

import argparse
import functools
import os
import time

import torch
import torch.distributed as dist


class Batches:
    def __init__(self, own: int) -> None:
        self.own = own

    @functools.cached_property
    def tokens(self) -> int:
        count = torch.full((1,), self.own, device="cuda")
        dist.all_reduce(count)
        return int(count.item())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batches = Batches(512 + rank)
        if rank == 2 and step == 4 and not healthy:
            print(f"rank {rank} long batch, {batches.tokens} tokens in all", flush=True)
        dist.all_reduce(gradient)
        gradient.div_(max(1, batches.tokens))
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
