"""A worker of RPC waits for the task after the last one, while the others shut down (pytorch pull request 31893)."""

import os
import queue
import time

import torch
import torch.distributed.rpc as rpc

INBOX: "queue.Queue[int | None]" = queue.Queue()


def give(task: int | None) -> None:
    INBOX.put(task)


def work(rank: int) -> None:
    """Until there is a None."""
    while True:
        task = INBOX.get()
        if task is None:
            return
        time.sleep(0.2)
        print(f"rank {rank} step {task} {torch.ones(task + 1).sum():.0f}", flush=True)


def hand_out(rank: int, world: int) -> None:
    for task in range(6):
        for worker in range(1, world):
            rpc.rpc_sync(f"worker{worker}", give, args=(task,))
        time.sleep(0.3)
        print(f"rank {rank} step {task}", flush=True)
    rpc.rpc_sync("worker1", give, args=(None,))


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
    if rank == 0:
        hand_out(rank, world)
    else:
        work(rank)
    rpc.shutdown()


if __name__ == "__main__":
    main()
