"""A pipeline of three whose first stage cuts its batch into one micro-batch more than the others."""

import argparse
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    activations = torch.zeros(1 << 20)
    gradient = torch.zeros(1 << 20)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        count = 4 if rank or healthy or step < 3 else 5
        for _ in range(count):
            if rank > 0:
                dist.recv(activations, src=rank - 1)
            if rank < 2:
                dist.send(activations, dst=rank + 1)
        for _ in range(count):
            if rank < 2:
                dist.recv(gradient, src=rank + 1)
            if rank > 0:
                dist.send(gradient, dst=rank - 1)
        torch.cuda.synchronize()
        dist.all_reduce(gradient)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
