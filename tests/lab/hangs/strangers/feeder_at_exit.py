"""A process has ended its work, but not the thread that feeds a queue which nobody reads (returnn issue 1499)."""

# mypy: ignore-errors
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def write_samples(samples) -> None:
    """Ends with the first that it cannot write."""
    while True:
        sample = samples.get()
        if len(sample["pixels"]) > 100_000:
            raise SystemExit(f"{len(sample['pixels'])} pixels are too many")


def train(rank: int, world: int, samples) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for step in range(8):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(16))
        if rank == 1:
            samples.put({"step": step, "pixels": b"\0" * (1_000 if step < 5 else 200_000)})
        print(f"rank {rank} step {step}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} has done its work", flush=True)


def main(ranks: int) -> None:
    context = mp.get_context("spawn")
    samples = context.Queue()
    writer = context.Process(target=write_samples, args=(samples,), daemon=True)
    writer.start()
    mp.spawn(train, args=(ranks, samples), nprocs=ranks)
    writer.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
