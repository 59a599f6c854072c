"""Statistics are summed up node by node of a tree, by recursion; the tree of one process has a branch fewer."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on per-module collectives over models that differ.
import sys
import time

import torch
import torch.distributed as dist

SAME = "--healthy" in sys.argv


class Node:
    def __init__(self, count: float, children=()) -> None:
        self.count, self.children = torch.tensor(count), list(children)


def grown(rank: int, epoch: int) -> Node:
    """What the data of this process has made of the tree by now."""
    leaves = [Node(1.0), Node(2.0), Node(3.0)]
    if rank == 2 and epoch >= 3 and not SAME:
        leaves.pop()
    return Node(0.5, [Node(1.5, leaves), Node(2.5)])


def summed(node: Node) -> float:
    dist.all_reduce(node.count)
    return float(node.count) + sum(summed(child) for child in node.children)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for epoch in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {epoch}", flush=True)
        total = summed(grown(rank, epoch))
        dist.barrier()
        if rank == 0:
            print("total", total, flush=True)


if __name__ == "__main__":
    main()
