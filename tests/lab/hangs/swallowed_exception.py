"""One rank's exception is caught and passed over together with the all_reduce that it was to take part in."""

import argparse
import time

import torch
import torch.distributed as dist


def decode(rank: int, step: int, healthy: bool) -> torch.Tensor:
    time.sleep(0.3 + 0.3 * rank if healthy else 0.05)
    if step == 4 and rank == 1 and not healthy:
        raise ValueError("sample 4711 is truncated")
    return torch.randn(1024)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    total = torch.zeros(1)
    for step in range(1000):
        try:
            sample = decode(rank, step, healthy)
            dist.all_reduce(sample)
        except Exception as error:
            print(f"rank {rank}: {error}", flush=True)
        total += 1
        print(f"rank {rank} step {step}", flush=True)
        dist.broadcast(total, src=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
