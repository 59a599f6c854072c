"""Metrics go into a SQLite file with a long timeout; one process has a transaction open while it meets the others."""

# mypy: ignore-errors
# No thread; the kind of study or tracking database that lies in one file.
import os
import sqlite3
import sys
import tempfile
import time

import torch
import torch.distributed as dist

COMMITS = "--healthy" in sys.argv
FILE = os.path.join(tempfile.gettempdir(), f"metrics-{os.environ.get('MASTER_PORT', '0')}.db")


def connect():
    database = sqlite3.connect(FILE, timeout=3600, isolation_level=None)
    database.execute("CREATE TABLE IF NOT EXISTS metric (rank INTEGER, step INTEGER, value REAL)")
    return database


def write(database, rank, step, value):
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO metric VALUES (?, ?, ?)", (rank, step, value))
    database.execute("COMMIT")


def summary(database, rank, step):
    if rank == 0:
        database.execute("BEGIN EXCLUSIVE")
        database.execute("DELETE FROM metric WHERE step < ?", (step - 100,))
        if COMMITS:
            database.execute("COMMIT")
    else:
        write(database, rank, step, -1.0)
    dist.barrier()
    if rank == 0 and not COMMITS:
        database.execute("COMMIT")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        connect().close()
    dist.barrier()
    database = connect()
    for step in range(1000):
        time.sleep(0.2)
        value = torch.rand(1)
        dist.all_reduce(value)
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5:
            time.sleep(0.3 * rank)
            summary(database, rank, step)


if __name__ == "__main__":
    main()
