"""Ray Train: the first worker reports its checkpoint, and the others have none to report."""

# mypy: ignore-errors
# After ray pull request 58229 (train.report waits for all workers, and some programs call it on one).
import argparse
import os
import sys
import tempfile
import time

os.environ.update(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0", RAY_TRAIN_V2_ENABLED="1")
import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer

ALL_REPORT = "--healthy" in sys.argv


def train(config: dict) -> None:
    rank = ray.train.get_context().get_world_rank()
    weight = torch.zeros(4)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradient = torch.randn(4)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient
        if step % 4 == 3:
            save(weight, rank, step, config["all"])


def save(weight: torch.Tensor, rank: int, step: int, everybody: bool) -> None:
    if rank > 0:
        if everybody:
            ray.train.report({"step": step})
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.save(weight, os.path.join(folder, "weight.pt"))
        ray.train.report({"step": step}, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main(ranks: int) -> None:
    ray.init(num_cpus=ranks + 2, include_dashboard=False, log_to_driver=True)
    trainer = TorchTrainer(
        train,
        train_loop_config={"all": ALL_REPORT},
        scaling_config=ray.train.ScalingConfig(num_workers=ranks),
        torch_config=TorchConfig(backend="gloo"),
        run_config=ray.train.RunConfig(storage_path=os.path.abspath("results")),
    )
    trainer.fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    main(chosen.spawn)
