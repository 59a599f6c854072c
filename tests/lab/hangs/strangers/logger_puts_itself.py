"""multiprocessing's own logger writes into a queue, which logs that it starts its thread (cpython 91555)."""

# mypy: ignore-errors
import logging
import logging.handlers
import multiprocessing
import os
import time

import torch
import torch.distributed as dist


def central_log(queue) -> logging.Logger:
    log = multiprocessing.get_logger()
    log.addHandler(logging.handlers.QueueHandler(queue))
    log.setLevel(os.environ.get("TRAIN_LOG", "WARNING"))
    return log


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    log = central_log(multiprocessing.Queue())
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step == 5 and rank == 1:
            log.setLevel(logging.DEBUG)  # somebody wants to see more of this one
        log.debug("step %d done", step)


if __name__ == "__main__":
    main()
