"""One rank's data step runs a program that does not come back."""

import argparse
import subprocess
import time

import torch
import torch.distributed as dist


def decode(seconds: str) -> None:
    subprocess.run(["sleep", seconds], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gradient = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        decode("100000" if step == 3 and rank == 2 and not healthy else "0")
        dist.all_reduce(gradient)
        print("gradient", gradient[0].item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
