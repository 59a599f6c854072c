"""Each rank's metrics go to a command that files them; on one it reads no more, and its pipe is full."""

import argparse
import json
import os
import subprocess
import time

import torch
import torch.distributed as dist


class Metrics:
    def __init__(self, command: list[str]) -> None:
        self.command = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def write(self, **values: float) -> None:
        assert self.command.stdin
        self.command.stdin.write(json.dumps(values | {"histogram": [0.125] * 2000}) + "\n")
        self.command.stdin.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    stuck = rank == 2 and not healthy
    metrics = Metrics(["sleep", "100000"] if stuck else ["cat"])
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        metrics.write(step=step, norm=1.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
