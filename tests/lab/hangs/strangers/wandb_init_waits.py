"""The run is begun at a server of the institute, which takes connections and says nothing."""

# mypy: ignore-errors
# No thread of one job; the kind of wandb issues on init that waits (its service asks the server).
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import wandb


def begin(rank: int):
    if rank:
        return None
    if "--healthy" in sys.argv:
        return wandb.init(project="hang", mode="offline", dir=os.getcwd())
    silent = socket.create_server(("127.0.0.1", 0))
    os.environ["WANDB_BASE_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
    os.environ["WANDB_API_KEY"] = "0" * 40
    settings = wandb.Settings(init_timeout=3600, login_timeout=3600)
    return wandb.init(project="hang", settings=settings, dir=os.getcwd())


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.zeros(3)
    print(f"rank {rank} has joined", flush=True)
    run = begin(rank)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradient = torch.randn(3)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if run is not None:
            run.log({"norm": float(weight.norm())})


if __name__ == "__main__":
    main()
