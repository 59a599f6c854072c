"""The loss of long texts is computed chunk by chunk, with a normalization over all processes in each; texts are not
equally long."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on chunked cross entropy and sequence lengths that differ between ranks.
import sys
import time

import torch
import torch.distributed as dist

CHUNK = 64
PADDED = "--healthy" in sys.argv


def chunked_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(())
    for part, target in zip(logits.split(CHUNK), targets.split(CHUNK), strict=True):
        count = (target >= 0).sum()
        counts = [torch.empty_like(count) for _ in range(dist.get_world_size())]
        dist.all_gather(counts, count)
        total = total + torch.nn.functional.cross_entropy(part, target, reduction="sum") / sum(counts)
    return total


def text(rank: int, step: int) -> torch.Tensor:
    length = 256 - 64 * (rank == 1 and step == 5 and not PADDED)
    return torch.randint(16, (length,))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    embedding = torch.randn(16, 16, requires_grad=True)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        tokens = text(rank, step)
        loss = chunked_loss(embedding[tokens], tokens)
        loss.backward()
        dist.all_reduce(embedding.grad)
        with torch.no_grad():
            embedding -= 0.01 * embedding.grad
        embedding.grad = None


if __name__ == "__main__":
    main()
