"""A rank stops, as by Ctrl-Z or by somebody who takes it for another process."""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        if step == 3 and rank == 1 and not healthy:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.ones(64))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
