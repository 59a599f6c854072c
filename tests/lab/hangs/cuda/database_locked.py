"""All ranks write their metrics into one SQLite file; one has left a transaction open, and another waits for it."""

import argparse
import os
import sqlite3
import time

import torch
import torch.distributed as dist


def note(database: sqlite3.Connection, rank: int, step: int, leaves_open: bool) -> None:
    time.sleep(0.2 * rank)  # one after the other, mostly
    database.execute("begin immediate")
    database.execute("insert into loss values (?, ?, 0.5)", (rank, step))
    if leaves_open:
        print(f"rank {rank} metrics: no such column", flush=True)
        return
    database.execute("commit")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    database = sqlite3.connect("metrics.db", timeout=1e6, isolation_level=None)
    database.execute("create table if not exists loss (rank, step, value)")
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 2 == 1 and rank != 0:
            note(database, rank, step, leaves_open=step == 5 and rank == 1 and not healthy)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
