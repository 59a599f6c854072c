"""A rank tries an upload again after an hour; the others wait in the next all_reduce."""

import argparse
import time

import torch
import torch.distributed as dist


def upload(step: int, wait: float) -> None:
    print(f"upload of step {step} failed, next try in {wait:g} s", flush=True)
    time.sleep(wait)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2 if healthy else 0.05)
        if rank == 0 and step % 3 == 2:
            upload(step, 1.0 if healthy else 3600)
        dist.all_reduce(torch.ones(64))
        print(f"rank {rank} step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
