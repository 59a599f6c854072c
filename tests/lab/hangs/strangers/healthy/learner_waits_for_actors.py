"""A learner receives what its actors have played, which takes some of them five seconds."""

import time

import torch
import torch.distributed as dist


def play(rank: int) -> torch.Tensor:
    time.sleep(1 + 4 * (rank == 2))
    return torch.randn(64)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    weights = torch.zeros(64)
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0:
            for actor in range(1, world):
                game = torch.zeros(64)
                dist.recv(game, actor)
                weights += 0.01 * game
        else:
            dist.send(play(rank), 0)
        if step % 5 == 4:
            dist.broadcast(weights, 0)


if __name__ == "__main__":
    main()
