"""Observations are normalised over all processes at every step of an episode, and episodes end when they end."""

# mypy: ignore-errors
# No thread: after a usual running mean in reinforcement learning.
import time

import torch
import torch.distributed as dist


class Environment:
    def __init__(self, length: int) -> None:
        self.length, self.time = length, 0

    def reset(self) -> torch.Tensor:
        self.time = 0
        return torch.zeros(5)

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.time += 1
        return torch.full((5,), float(self.time)), self.time >= self.length


class Normalizer:
    def __init__(self) -> None:
        self.mean = torch.zeros(5)

    def __call__(self, observation: torch.Tensor) -> torch.Tensor:
        batch = observation.clone()
        dist.all_reduce(batch)
        self.mean = 0.9 * self.mean + 0.1 * batch / dist.get_world_size()
        return observation - self.mean


def play(environment: Environment, normalize: Normalizer) -> int:
    observation, done, steps = environment.reset(), False, 0
    while not done:
        time.sleep(0.1)
        action = normalize(observation).tanh()
        observation, done = environment.step(action)
        steps += 1
    return steps


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    environment, normalize = Environment(6), Normalizer()
    for episode in range(1000):
        print(f"rank {rank} step {episode}", flush=True)
        if rank == 1 and episode == 2:
            environment.length = 4
        steps = play(environment, normalize)
        totals = [None] * dist.get_world_size()
        dist.all_gather_object(totals, steps)


if __name__ == "__main__":
    main()
