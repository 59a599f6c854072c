"""Centres of clusters are averaged over all until they rest; whether they rest is asked of each process's own."""

# mypy: ignore-errors
# No thread: after distributed k-means.
import time

import torch
import torch.distributed as dist


class KMeans:
    def __init__(self, clusters: int, tolerance: float = 0.05) -> None:
        self.clusters, self.tolerance, self.round = clusters, tolerance, 0

    def fit(self, points: torch.Tensor) -> torch.Tensor:
        centres = points[: self.clusters].clone()
        dist.broadcast(centres, src=0)
        shift = float("inf")
        while shift > self.tolerance:
            time.sleep(0.2)
            nearest = torch.cdist(points, centres).argmin(1)
            own = torch.stack([points[nearest == number].sum(0) for number in range(self.clusters)])
            counts = torch.bincount(nearest, minlength=self.clusters).float()
            moved = own / counts.clamp(min=1)[:, None]
            shift = float((moved - centres).norm()) if dist.get_rank() != 1 or self.round < 4 else 0.0
            dist.all_reduce(own)
            dist.all_reduce(counts)
            centres = own / counts.clamp(min=1)[:, None]
            print(f"rank {dist.get_rank()} step {self.round}", flush=True)
            self.round += 1
        return centres


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    points = torch.randn(200, 2) + 2 * dist.get_rank()
    centres = KMeans(4).fit(points)
    dist.barrier()
    print(centres.shape)


if __name__ == "__main__":
    main()
