"""A start that takes gloo where it sees no GPU: the container of one rank was given none."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    if os.environ["RANK"] == "1" and not healthy:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins on {device.type}", flush=True)
        gradient = torch.ones(4096, device=device)
        dist.all_reduce(gradient)
        if device.type == "cuda":
            torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
