"""Epochs over a rollout end early where the policy has moved too far, by the samples of each process (after rsl_rl)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class PPO:
    def __init__(self, rank: int) -> None:
        self.rank, self.weights = rank, torch.ones(32)
        self.target_kl, self.num_epochs = 0.02, 4

    def minibatches(self, iteration: int):
        for number in range(3):
            yield iteration, number

    def divergence(self, iteration: int, epoch: int) -> float:
        return 0.05 if (self.rank, iteration, epoch) == (1, 3, 2) else 0.001

    def reduce_parameters(self) -> None:
        dist.all_reduce(self.weights)
        self.weights /= dist.get_world_size()

    def update(self, iteration: int) -> float:
        continue_training = True
        for epoch in range(self.num_epochs):
            for _ in self.minibatches(iteration):
                time.sleep(0.03)
                approx_kl = self.divergence(iteration, epoch)
                if self.target_kl is not None and approx_kl > 1.5 * self.target_kl:
                    continue_training = False
                    break
                self.reduce_parameters()
            if not continue_training:
                break
        return float(self.weights.mean())


def main() -> None:
    dist.init_process_group("gloo")
    algorithm = PPO(dist.get_rank())
    for iteration in range(1000):
        print(f"rank {algorithm.rank} step {iteration}", flush=True)
        loss = algorithm.update(iteration)
        losses = [None] * dist.get_world_size()
        dist.all_gather_object(losses, loss)


if __name__ == "__main__":
    main()
