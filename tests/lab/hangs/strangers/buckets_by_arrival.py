"""Gradients are reduced by kind, in the order in which the kinds came up on each process (apex pull request 18)."""

# mypy: ignore-errors
import time
from collections import OrderedDict

import torch
import torch.distributed as dist


def sparse(gradient: torch.Tensor, ranks: int) -> torch.Tensor:
    """Of an embedding the rows are gathered."""
    rows = [torch.empty_like(gradient) for _ in range(ranks)]
    dist.all_gather(rows, gradient)
    return torch.stack(rows).sum(0)


def dense(gradient: torch.Tensor, ranks: int) -> torch.Tensor:
    dist.all_reduce(gradient)
    return gradient / ranks


CALLS = {"sparse": sparse, "dense": dense}


class TwoTowers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.ones(16, 4))
        self.tower = torch.nn.Parameter(torch.ones(4, 4))

    def used(self, sample: dict) -> list[tuple[str, torch.nn.Parameter]]:
        pair = [("sparse", self.table), ("dense", self.tower)]
        return pair if sample["query_first"] else pair[::-1]


def flat_dist_call(used, ranks: int) -> None:
    buckets = OrderedDict()
    for kind, parameter in used:
        buckets.setdefault(kind, []).append(parameter)
    for kind, parameters in buckets.items():
        for parameter in parameters:
            parameter.data.copy_(CALLS[kind](parameter.detach().clone(), ranks))


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = TwoTowers()
    for step in range(1000):
        time.sleep(0.2)
        sample = {"query_first": (step * ranks + rank) != 19}
        flat_dist_call(model.used(sample), ranks)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
