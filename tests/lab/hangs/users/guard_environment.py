"""The condition reads the environment."""

import os

import torch
import torch.distributed as dist


def train() -> None:
    dist.init_process_group("gloo")
    step = 0
    while step < 1000:
        print(f"rank {os.environ['RANK']} step {step}", flush=True)
        gradient = torch.ones(16)
        dist.all_reduce(gradient)
        if step == 3 and not int(os.environ.get("LOCAL_RANK", "0")):
            total = gradient.norm()
            dist.reduce(total, dst=0)
            print("norm", total.item())
        step += 1


train()
