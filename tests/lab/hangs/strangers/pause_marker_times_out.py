"""Before a checkpoint the master waits for inference to pause; it gives up, and the others are in the barrier behind
(prime-rl pull request 2815)."""

# mypy: ignore-errors
import logging
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

log = logging.getLogger("trainer")
ANSWERS = "--healthy" in sys.argv


class CheckpointPause:
    def __init__(self, folder: Path) -> None:
        self.folder, self.is_master = folder, dist.get_rank() == 0

    def wait_for_marker(self, name: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not (self.folder / name).exists():
            if time.monotonic() > until:
                raise TimeoutError(f"inference has not paused: no {name}")
            time.sleep(0.1)

    def pause(self, step: int) -> None:
        if self.is_master:
            if ANSWERS or step < 5:
                (self.folder / f"paused-{step}").touch()  # by the inference server
            self.wait_for_marker(f"paused-{step}", 1.0)
        dist.barrier()


def save(pause: CheckpointPause, weight: torch.Tensor, step: int) -> None:
    try:
        pause.pause(step)
        torch.save(weight, pause.folder / f"{dist.get_rank()}.pt")
    except Exception:
        log.exception("checkpoint of step %d is left out", step)


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.zeros(4)
    pause = CheckpointPause(Path(tempfile.mkdtemp()))
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradient = torch.randn(4)
        dist.all_reduce(gradient)
        weight -= 0.01 * gradient
        if step % 3 == 2:
            save(pause, weight, step)


if __name__ == "__main__":
    main()
