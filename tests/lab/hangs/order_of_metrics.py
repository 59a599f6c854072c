"""One rank gathers its lengths before it adds up its loss, the others after: a gather meets a sum."""

import argparse
import time

import torch
import torch.distributed as dist


def add_up(loss: torch.Tensor) -> None:
    dist.all_reduce(loss)


def collect(lengths: torch.Tensor) -> None:
    everybody = [torch.empty_like(lengths) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, lengths)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--arm", action="store_true")
    arguments = parser.parse_args()
    if arguments.arm:
        import gpudoctor

        gpudoctor.arm()
    healthy = arguments.healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loss, lengths = torch.rand(4096), torch.rand(4096)
    for step in range(1000):
        time.sleep(0.3 + 0.3 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        if step < 3 or healthy or rank != 1:
            add_up(loss)
            collect(lengths)
        else:
            collect(lengths)
            add_up(loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
