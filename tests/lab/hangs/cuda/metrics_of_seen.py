"""Metrics of a validation are averaged one by one; a rank whose samples lack a class has one metric less."""

import argparse
import os
import time

import torch
import torch.distributed as dist

CLASSES = ("adder", "bear", "crane")


def validate(samples: list[str]) -> dict[str, torch.Tensor]:
    right: dict[str, torch.Tensor] = {}
    for name in samples:
        right.setdefault(f"accuracy/{name}", torch.zeros(1, device="cuda")).fill_(1.0)
    return right


def averaged(metrics: dict[str, torch.Tensor]) -> dict[str, float]:
    done = {}
    for name, value in sorted(metrics.items()):
        dist.all_reduce(value, op=dist.ReduceOp.AVG)
        done[name] = value.item()
    return done


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    samples = [CLASSES[number % (3 if healthy or rank != 2 else 2)] for number in range(12)]
    gradient = torch.ones(4096, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
        torch.cuda.synchronize()
        if step % 3 == 2:
            metrics = averaged(validate(samples))
            print(f"rank {rank} {metrics}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
