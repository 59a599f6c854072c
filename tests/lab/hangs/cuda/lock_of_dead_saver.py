"""A thread saves under a lock, and has ended by an exception with the lock still taken."""

import os
import threading
import time

import torch
import torch.distributed as dist

LOCK = threading.Lock()


def save(step: int) -> None:
    LOCK.acquire()
    raise OSError(28, f"no space for step {step}")


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if rank == 0 and step == 4:
            saver = threading.Thread(target=save, args=(step,))
            saver.start()
            saver.join()
        if rank == 0:
            LOCK.acquire()
            LOCK.release()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
