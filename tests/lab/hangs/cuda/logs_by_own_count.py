"""The loss of all is logged every few accepted batches, and each rank counts those that it has accepted itself."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Logger:
    def __init__(self, every: int) -> None:
        self.every = every
        self.accepted = 0

    def log(self, loss: torch.Tensor) -> None:
        self.accepted += 1
        if self.accepted % self.every == 0:
            losses = torch.empty(dist.get_world_size(), device="cuda")
            dist.all_gather_into_tensor(losses, loss)
            print(f"rank {dist.get_rank()} losses {losses.tolist()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    logger = Logger(every=5)
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        too_long = rank == 1 and step == 2 and not healthy
        if not too_long:
            logger.log(torch.ones(1, device="cuda"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
