"""A compiled model pads to the longest of all processes, where its own batch is long enough to be worth it."""

# mypy: ignore-errors
# No thread of one job; the kind of pytorch pull request 155558 (ranks that part within compiled code).
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

WORTH = 10_000 if "--healthy" in sys.argv else 64


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(32, 8), nn.Linear(8, 1)

    def forward(self, tokens):
        longest = tokens.shape[1]
        if longest > WORTH:
            lengths = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size())]
            dist.all_gather(lengths, torch.tensor([longest]))
            longest = int(max(lengths))
        tokens = nn.functional.pad(tokens, (0, longest - tokens.shape[1]))
        return self.out(self.embed(tokens)).mean()


def main() -> None:
    dist.init_process_group("gloo")
    rank, model = dist.get_rank(), Encoder()
    compiled = torch.compile(model, backend="eager", dynamic=True)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        longest = 80 if step == 6 and rank == 1 else 16 + 2 * (step % 3)
        compiled(torch.randint(0, 32, (2, longest))).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        model.zero_grad()


if __name__ == "__main__":
    main()
