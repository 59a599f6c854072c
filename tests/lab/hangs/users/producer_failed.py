"""Batches come from a process of one's own through a queue; on rank 1 that process has ended with an exception."""

import multiprocessing as mp

import torch
import torch.distributed as dist


def produce(queue: "mp.Queue[list[float]]", rank: int) -> None:
    for number in range(100_000):
        if rank == 1 and number == 4:
            raise ValueError("corrupt shard 4")
        queue.put([float(number)] * 8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    context = mp.get_context("fork")
    queue: mp.Queue[list[float]] = context.Queue(maxsize=4)
    producer = context.Process(target=produce, args=(queue, rank), daemon=True)
    producer.start()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        batch = torch.tensor(queue.get())
        dist.all_reduce(batch)


if __name__ == "__main__":
    main()
