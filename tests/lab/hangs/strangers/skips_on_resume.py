"""After a restart the rank that reads data skips what was seen by reading it, others count (PaddleNLP pull 8932)."""

# mypy: ignore-errors
import json
import time
from pathlib import Path

import torch
import torch.distributed as dist


class DistDataLoader:
    """Reads on one rank of a tensor parallel group, for all of it."""

    def __init__(self, has_data: bool) -> None:
        self._has_data, self._number = has_data, 0

    def __iter__(self):
        return self

    def __next__(self) -> torch.Tensor:
        batch = torch.full((4, 8), float(self._number)) if self._has_data else torch.empty(4, 8)
        self._number += 1
        dist.broadcast(batch, src=0)
        return batch


class Trainer:
    def __init__(self, state: Path) -> None:
        self.rank, self.state = dist.get_rank(), state
        self.loader = DistDataLoader(has_data=self.rank == 0)
        self.epoch_iterator = iter(self.loader)

    def skip_first_batches(self, consumed: int) -> None:
        if self.loader._has_data:
            for _ in range(consumed):
                next(self.epoch_iterator)
        else:
            self.loader._number = consumed

    def train(self) -> None:
        consumed = json.loads(self.state.read_text())["consumed"] if self.state.exists() else 0
        self.skip_first_batches(consumed)
        for step in range(consumed, 1000):
            logits = next(self.epoch_iterator).mean(0)
            time.sleep(0.2)
            dist.all_reduce(logits)
            print(f"rank {self.rank} step {step}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    state = Path("trainer_state.json")
    state.write_text(json.dumps({"consumed": 6}))  # of the run before
    dist.barrier()
    print(f"rank {dist.get_rank()} has joined", flush=True)
    Trainer(state).train()


if __name__ == "__main__":
    main()
