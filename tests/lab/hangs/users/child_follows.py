"""Rank 1 reads the last lines of a log with a command that never ends."""

import subprocess

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    me = dist.get_rank()
    with open(f"metrics-{me}.log", "w") as log:
        for step in range(1000):
            print(f"rank {me} step {step}", flush=True)
            log.write(f"{step} 0.5\n")
            log.flush()
            if me == 1 and step == 4:
                subprocess.run(["tail", "-n", "2", "-f", log.name], check=True)
            dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
