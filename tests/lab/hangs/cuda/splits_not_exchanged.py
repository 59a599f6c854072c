"""Tokens go to experts on all ranks; how many come is taken for as many as ever, and one rank's router sends others."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def dispatch(tokens: torch.Tensor, sent: list[int], expected: list[int]) -> torch.Tensor:
    received = torch.empty(sum(expected), tokens.shape[1], device="cuda")
    dist.all_to_all_single(received, tokens, output_split_sizes=expected, input_split_sizes=sent)
    return received


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    width = 1 << 14
    equal = [8, 8, 8]
    own = equal
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and rank == 2 and not healthy:
            own = [4, 12, 8]
        dispatched = dispatch(torch.ones(sum(own), width, device="cuda"), own, equal)
        torch.cuda.synchronize()
        del dispatched
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
