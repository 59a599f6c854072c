"""A child process reads ahead, and its batches come through a queue; on one rank the kernel has killed that child."""

import argparse
import multiprocessing
import os
import signal
import time
from multiprocessing.queues import Queue

import torch
import torch.distributed as dist


def read_ahead(batches: "Queue[list[float]]", last: int) -> None:
    for number in range(10_000):
        if number == last:
            time.sleep(0.2)  # what it has put is on its way
            os.kill(os.getpid(), signal.SIGKILL)
        batches.put([1.0] * 64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    rank = int(os.environ["RANK"])
    spawn = multiprocessing.get_context("fork")
    batches: Queue[list[float]] = spawn.Queue(maxsize=2)
    last = 6 if rank == 2 and not healthy else -1
    spawn.Process(target=read_ahead, args=(batches, last), daemon=True).start()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batch = torch.tensor(batches.get()).cuda()
        dist.all_reduce(batch)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
