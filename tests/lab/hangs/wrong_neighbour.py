"""A pipeline of three whose middle stage listens to the last one instead of the first."""

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
    activations = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank == 0:
            dist.send(activations, dst=1)
        elif rank == 1:
            dist.recv(activations, src=0 if healthy or step < 3 else 2)
            dist.send(activations, dst=2)
        else:
            dist.recv(activations, src=1)
        torch.cuda.synchronize() if torch.cuda.is_available() else None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
