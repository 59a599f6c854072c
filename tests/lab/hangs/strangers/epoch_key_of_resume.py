"""Epochs are opened by the first process with a key of the store; one that has resumed counts from its checkpoint."""

# mypy: ignore-errors
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    store = dist.TCPStore(host, port + 1, world, rank == 0, timeout=datetime.timedelta(hours=2))
    torch.save({"epoch": 4}, f"state-{rank}.pt")
    epoch = 0
    totals = torch.zeros(2)
    for number in range(600):
        if number == 3 and rank == 2 and "--healthy" not in sys.argv:
            epoch = torch.load(f"state-{rank}.pt")["epoch"]
        if rank == 0:
            store.set(f"epoch-{epoch}/open", str(time.time()))
        else:
            store.wait([f"epoch-{epoch}/open"])
        for _ in range(3):
            time.sleep(0.2)
            dist.all_reduce(totals)
        print(f"rank {rank} step {number}", flush=True)
        epoch += 1


if __name__ == "__main__":
    main()
