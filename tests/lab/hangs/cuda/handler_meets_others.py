"""A signal handler saves together with the others at once; only one rank was sent the signal."""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist


def save_together(*_: object) -> None:
    print(f"rank {dist.get_rank()} was asked to save", flush=True)
    dist.barrier()
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    signal.signal(signal.SIGUSR1, save_together)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and rank == 2 and not healthy:
            os.kill(os.getpid(), signal.SIGUSR1)
        gradient = torch.ones(1 << 18, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
