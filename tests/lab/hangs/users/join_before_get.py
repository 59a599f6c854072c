"""A child computes statistics and puts them into a queue; the parent joins it before it empties the queue."""

import multiprocessing as mp

import torch
import torch.distributed as dist


def statistics(queue: "mp.Queue[list[float]]", size: int) -> None:
    queue.put([0.5] * size)


def collect(size: int) -> list[float]:
    context = mp.get_context("fork")
    queue: mp.Queue[list[float]] = context.Queue()
    child = context.Process(target=statistics, args=(queue, size))
    child.start()
    child.join()
    return queue.get()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 3:
            print(len(collect(1_000_000)))
        elif rank == 0 and step == 2:
            print(len(collect(10)))
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
