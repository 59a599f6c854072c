"""Rank 0 waits in a collective inside of its transaction; rank 1 waits for that transaction's lock."""

import sqlite3
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    database = sqlite3.connect("trials.db", timeout=36_000, isolation_level=None)
    if rank == 0:
        database.execute("create table if not exists trials (step integer, loss real)")
    dist.barrier()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1:
            time.sleep(0.5)
        if step == 3:
            database.execute("begin immediate")
            database.execute("insert into trials values (?, ?)", (step, 0.5))
        dist.all_reduce(torch.ones(4))
        if step == 3:
            database.execute("commit")


if __name__ == "__main__":
    main()
