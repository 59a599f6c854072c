"""One rank counts fewer tokens to come from a neighbour than that one sends."""

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
    size = dist.get_world_size()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        sent = [4] * size
        comes = [4] * size
        if step == 3 and rank == 1 and not healthy:
            comes[0] = 3
        tokens = torch.zeros(sum(sent), 1 << 16)
        received = torch.zeros(sum(comes), 1 << 16)
        dist.all_to_all_single(received, tokens, comes, sent)
        received.sum().item()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
