"""Boxes are matched to boxes in plain Python; one process has an image with very many, and is at it for hours."""

# mypy: ignore-errors
# The kind of detection issues in which the matching of one crowded image outlasts the time-out. No thread of one job.
import sys
import time

import torch
import torch.distributed as dist

CROWDED = "--healthy" not in sys.argv


def overlap(one, other) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0, width) * max(0, height)


def matched(boxes) -> int:
    pairs = 0
    for one in boxes:
        best, found = 0.0, None
        for other in boxes:
            value = overlap(one, other)
            if value > best:
                best, found = value, other
        if found is not None:
            pairs += 1
    return pairs


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        crowd = CROWDED and rank == 1 and step == 6
        boxes = [(i, i, i + 2, i + 2) for i in range(60000 if crowd else 20)]
        found = torch.tensor(float(matched(boxes)))
        if found.item() == 0:
            continue
        dist.all_reduce(found)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
