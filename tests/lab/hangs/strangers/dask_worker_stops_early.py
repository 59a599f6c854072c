"""Dask: each worker trains a part, and stops where its own loss is good enough."""

# mypy: ignore-errors
# No thread of one job; after usual programs that set the variables of torch.distributed in a task of Dask.
import argparse
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from dask.distributed import Client, LocalCluster


def train(rank: int, ranks: int, port: int, alike: bool) -> float:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo")
    weight, loss = torch.zeros(4), 1.0
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradient = torch.randn(4)
        dist.all_reduce(gradient)
        weight -= 0.01 * gradient
        loss *= 0.8 if rank == 1 else 0.95
        if loss < 0.3 and not alike:
            break
    losses = [torch.zeros(()) for _ in range(ranks)]
    dist.all_gather(losses, torch.tensor(loss))
    return float(torch.stack(losses).mean())


def main(ranks: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    alike = "--healthy" in sys.argv
    cluster = LocalCluster(n_workers=ranks, threads_per_worker=1, processes=True, dashboard_address=None)
    client = Client(cluster)
    workers = list(client.scheduler_info()["workers"])
    parts = [
        client.submit(train, rank, ranks, port, alike, workers=[worker], pure=False)
        for rank, worker in enumerate(workers)
    ]
    print(client.gather(parts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
