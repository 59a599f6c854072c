"""Weights go from the trainer to two engines, a broadcast each; one engine knows no head: its embedding is the head."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def sync(weights: dict[str, torch.Tensor], tied: bool) -> None:
    for name, weight in weights.items():
        if tied and name == "lm_head.weight":
            continue
        dist.broadcast(weight, src=0)
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    weights = {
        "embed.weight": torch.ones(1024, 64, device="cuda"),
        "norm.weight": torch.ones(64, device="cuda"),
        "lm_head.weight": torch.ones(1024, 64, device="cuda"),
    }
    config = {"tie_word_embeddings": rank == 2 and not healthy}
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        rewards = torch.ones(16, device="cuda")
        dist.all_reduce(rewards)
        torch.cuda.synchronize()
        if step % 4 == 3:
            sync(weights, config["tie_word_embeddings"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
