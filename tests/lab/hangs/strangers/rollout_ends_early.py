"""A rollout with ZeRO-3 stops at the end of its own answer (DeepSpeed issue 8262)."""

# mypy: ignore-errors
import os
import time

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

END = 7


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(64, 16), nn.Linear(16, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


def next_token(logits: torch.Tensor, prompt: int, answer: list[int]) -> int:
    """One prompt has a short answer."""
    if prompt == 7 and len(answer) == 3:
        return END
    return 8 + int(logits[-1].argmax()) % 50


def rollout(engine: nn.Module, prompt: int, longest: int) -> list[int]:
    answer = [prompt % 64]
    while len(answer) < longest:
        token = next_token(engine(torch.tensor(answer)), prompt, answer)
        answer.append(token)
        if token == END:
            break
    return answer


def main() -> None:
    deepspeed.init_distributed("gloo")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 1}
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero}
    engine, *_ = deepspeed.initialize(model=Student(), config=config)
    for number in range(50):
        with torch.no_grad():
            answer = rollout(engine, number * ranks + rank, 12)
        print(f"rank {rank} step {number}", flush=True)
        time.sleep(0.2)
        reward = torch.tensor([float(len(answer))])
        dist.broadcast(reward, src=0)


if __name__ == "__main__":
    main()
