"""The first sharded tensor makes all agree on a random state, and some make none (pytorch issue 157662)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class RNGTracker:
    def __init__(self, run_state_sync: bool = True) -> None:
        self.state = torch.get_rng_state()
        if run_state_sync:
            dist.broadcast(self.state, 0)


_rng_tracker: RNGTracker | None = None


def random_shard(*shape: int) -> torch.Tensor:
    global _rng_tracker
    if _rng_tracker is None:
        _rng_tracker = RNGTracker()
    torch.set_rng_state(_rng_tracker.state)
    return torch.randn(*shape)


def replica_of(rank: int) -> int:
    """Two ranks are a replica; what is over is one of its own."""
    return rank // 2


def debug_histogram(weights: torch.Tensor) -> float:
    """Against a random direction."""
    return float(weights @ random_shard(len(weights)))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.ones(16)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        weights /= weights.norm()
        if step == 5 and replica_of(rank) == 0:
            print("projection", debug_histogram(weights), flush=True)


if __name__ == "__main__":
    main()
