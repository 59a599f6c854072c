"""Ray Train: a worker whose part of the files is empty has nothing to do, and returns."""

# mypy: ignore-errors
# The kind of Ray threads on workers that finish before the others (discuss.ray.io, "torch trainer gets stuck").
import argparse
import os
import sys
import time

os.environ.update(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0", RAY_TRAIN_V2_ENABLED="1")
import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer

FILES = 8 if "--healthy" in sys.argv else 5
PER_WORKER = 4


def fit(config: dict) -> None:
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    files = [f"part-{number}" for number in range(config["files"])]
    print(f"rank {rank} of {world} begins", flush=True)
    for shift in range(300):
        first = rank * PER_WORKER
        mine = files[first : first + PER_WORKER] if shift < 4 else files[first + 1 : first + PER_WORKER]
        if not mine:
            print("nothing left for me", flush=True)
            return
        time.sleep(0.3)
        weight = torch.full((4,), float(len(mine)))
        dist.all_reduce(weight)
        print(f"rank {rank} step {shift}", flush=True)


def main(ranks: int) -> None:
    ray.init(num_cpus=ranks + 2, include_dashboard=False, log_to_driver=True)
    TorchTrainer(
        fit,
        train_loop_config={"files": FILES},
        scaling_config=ray.train.ScalingConfig(num_workers=ranks),
        torch_config=TorchConfig(backend="gloo"),
        run_config=ray.train.RunConfig(storage_path=os.path.abspath("results")),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
