"""Predictions are gathered where a setting says; one rank reads another number there than the others."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def collect(predictions: torch.Tensor, writer: int) -> None:
    parts = None
    if dist.get_rank() == writer:
        parts = [torch.empty_like(predictions) for _ in range(dist.get_world_size())]
    dist.gather(predictions, parts, dst=writer)
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    settings = {"writer": 0}
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step == 4 and rank == 1 and not healthy:
            settings["writer"] = 1
        if step % 2 == 0:
            collect(torch.ones(1 << 18, device="cuda"), settings["writer"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
