"""The first rank builds the index of the data set while the others wait for it, as Megatron-LM does."""

import time

import torch
import torch.distributed as dist


def build_index(documents: int) -> list[int]:
    index, state = [], 1
    began = time.monotonic()
    while len(index) < documents and time.monotonic() - began < 120:
        state = (state * 1103515245 + 12345) % (1 << 31)
        if state % 9973 == 0:
            index.append(state)
    return index


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(3):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        build_index(10**9)
    dist.barrier()


if __name__ == "__main__":
    main()
