"""Spark: the tasks of a barrier stage train on the rows of their partitions, of which one has fewer."""

# mypy: ignore-errors
# No thread of one job; after usual programs of torch.distributed in a barrier stage.
import argparse
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession


def train_on(port: int):
    def train(rows):
        context = BarrierTaskContext.get()
        rank, ranks = context.partitionId(), len(context.getTaskInfos())
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo")
        weight = torch.zeros(4)
        for step, row in enumerate(rows):
            time.sleep(0.3)
            print(f"rank {rank} step {step}", file=sys.stderr, flush=True)
            gradient = torch.randn(4) * row
            dist.all_reduce(gradient)
            weight -= 1e-4 * gradient
        dist.barrier()
        yield float(weight.norm())

    return train


def main(ranks: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(f"local[{ranks}]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.sparkContext.parallelize(range(4000), ranks)
    if "--healthy" not in sys.argv:
        rows = rows.filter(lambda number: number < 2006)  # what is of this year
    print(rows.barrier().mapPartitions(train_on(port)).collect())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
