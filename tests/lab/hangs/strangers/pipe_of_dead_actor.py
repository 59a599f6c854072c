"""An actor has died, but another one still has the end of its pipe open, so that the trainer reads for ever (after
dramatiq pull request 707)."""

# mypy: ignore-errors
import multiprocessing
import os
import time

import torch
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")


def actor(connection, number: int) -> None:
    """Plays a game for each policy it is given."""
    played = 0
    while True:
        policy = connection.recv()
        time.sleep(0.05)
        played += 1
        if number == 0 and played == 7:
            os._exit(1)  # the simulator has crashed
        connection.send({"return": policy * number, "length": 10})


class VectorEnv:
    def __init__(self, number: int) -> None:
        self.remotes, theirs = zip(*[FORK.Pipe() for _ in range(number)], strict=True)
        for index, remote in enumerate(theirs):
            FORK.Process(target=actor, args=(remote, index), daemon=True).start()

    def step(self, policy: float) -> list[dict]:
        for remote in self.remotes:
            remote.send(policy)
        return [remote.recv() for remote in self.remotes]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    env = VectorEnv(2) if rank == 1 else None
    for step in range(1000):
        returns = [result["return"] for result in env.step(0.5)] if env else [0.0, 0.0]
        time.sleep(0.2)
        dist.all_reduce(torch.tensor(returns))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
