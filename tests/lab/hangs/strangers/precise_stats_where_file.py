"""The best weights are looked for on each node, and who has none returns to the barrier at the end (libreyolo 782)."""

# mypy: ignore-errors
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

EVERY_NODE_HAS_IT = "--healthy" in sys.argv


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.rank = model, dist.get_rank()
        self.save_dir = Path(tempfile.mkdtemp())  # a disk of the node's own

    def save_best(self) -> None:
        if self.rank != 1 or EVERY_NODE_HAS_IT:  # rsync has not been to that node
            torch.save(self.model.state_dict(), self.save_dir / "best.pt")

    def precise_statistics(self) -> None:
        for buffer in self.model.buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= dist.get_world_size()

    def refresh_best(self) -> bool:
        best_path = self.save_dir / "best.pt"
        if not best_path.is_file():
            return False
        self.model.load_state_dict(torch.load(best_path))
        self.precise_statistics()
        return True

    def train(self) -> None:
        for step in range(1000):
            time.sleep(0.3)
            print(f"rank {self.rank} step {step}", flush=True)
            self.model(torch.randn(8, 4)).square().mean().backward()
            if step % 5 == 4:
                self.save_best()
                self.refresh_best()
                dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    Trainer(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))).train()


if __name__ == "__main__":
    main()
