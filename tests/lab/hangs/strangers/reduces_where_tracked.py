"""The loss that is logged is gathered where there is a run of the tracker (cosmos-transfer2.5 issue 240)."""

# mypy: ignore-errors
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CONFIG = {"job": {"name": "transfer", "track": True}, "trainer": {"logging_iter": 4, "max_iter": 5000}}


class Run:
    def log(self, values: dict[str, float]) -> None:
        print("logged", values, flush=True)


def init_run(config: dict) -> Run | None:
    """One run for all of the job."""
    return Run() if config["job"]["track"] and os.environ.get("RANK", "0") == "0" else None


class TrackLoss:
    def __init__(self, config: dict) -> None:
        self.every = config["trainer"]["logging_iter"]
        self.run = init_run(config)
        self.losses: list[torch.Tensor] = []

    def on_training_step_end(self, iteration: int, loss: torch.Tensor) -> None:
        self.losses.append(loss)
        if iteration % self.every == 0 and self.run:
            parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, torch.stack(self.losses).mean().reshape(1))
            self.run.log({"loss": float(sum(parts)) / len(parts)})
            self.losses.clear()


def worker(rank: int, ranks: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    callbacks = [TrackLoss(CONFIG)]
    gradient = torch.ones(1024)
    for iteration in range(1, CONFIG["trainer"]["max_iter"]):
        time.sleep(0.2)
        dist.all_reduce(gradient)
        gradient /= ranks
        print(f"rank {rank} step {iteration}", flush=True)
        for callback in callbacks:
            callback.on_training_step_end(iteration, gradient.mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=2)
    chosen, _ = parser.parse_known_args()
    mp.spawn(worker, (chosen.spawn,), nprocs=chosen.spawn)
