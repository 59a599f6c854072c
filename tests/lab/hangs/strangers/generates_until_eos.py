"""Ranks of a sharded model generate until their own end of text (DeepSpeed issue 8262, with FSDP2)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EOS = 0
LIMIT = 12


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 24)
        self.head = nn.Linear(24, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens))


def rollout(policy: nn.Module, prompt: int, ends_at: int) -> list[int]:
    tokens = [prompt]
    while len(tokens) < LIMIT:
        with torch.no_grad():
            logits = policy(torch.tensor(tokens))
        token = EOS if len(tokens) == ends_at else 1 + int(logits[-1, 1:].argmax())
        tokens.append(token)
        if token == EOS:
            break
    return tokens


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    policy = Policy()
    fully_shard(policy, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    for step in range(100):
        time.sleep(0.2)
        answer = rollout(policy, 1 + rank, 4 if rank == 1 and step == 3 else 8)
        reward = torch.tensor([float(len(answer))])
        dist.all_reduce(reward)
        print(f"rank {rank} step {step} reward {reward.item()}", flush=True)


if __name__ == "__main__":
    main()
