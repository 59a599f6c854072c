"""fcntl.lockf around writing the log; one rank keeps it in a collective."""

import fcntl
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with open("run.log", "a") as log:
        for step in range(1000):
            print(f"rank {rank} step {step}", flush=True)
            dist.all_reduce(torch.ones(4))
            if step == 3:
                time.sleep(0.4 * rank)
                fcntl.lockf(log, fcntl.LOCK_EX)
                log.write(f"{step}\n")
                dist.barrier()
                fcntl.lockf(log, fcntl.LOCK_UN)


if __name__ == "__main__":
    main()
