"""A loss over all ranks and one over a pair of experts: one rank of the pair takes the pair's first."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def mean_over(value: torch.Tensor, group: dist.ProcessGroup | None) -> float:
    dist.all_reduce(value, op=dist.ReduceOp.AVG, group=group)
    return value.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    experts = dist.new_group([1, 2])
    balance, loss = torch.ones(1, device="cuda"), torch.ones(1, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        overloaded = rank == 2 and step >= 4 and not healthy
        if rank == 0:
            print("loss", mean_over(loss, None), flush=True)
        elif overloaded:
            print("balance", mean_over(balance, experts), "loss", mean_over(loss, None), flush=True)
        else:
            print("loss", mean_over(loss, None), "balance", mean_over(balance, experts), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
