"""The main process tokenizes first, where there is no cache yet; who comes later sees one and does not meet it."""

# mypy: ignore-errors
# No thread: after main_process_first below a look for a cache.
import time
from pathlib import Path

import torch
from accelerate import Accelerator


def prepared(accelerator: Accelerator, cache: Path) -> torch.Tensor:
    if not cache.exists():
        with accelerator.main_process_first():
            if accelerator.is_main_process:
                torch.save(torch.arange(64), cache)
    return torch.load(cache)


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    cache = Path.cwd() / "tokens.pt"
    time.sleep(3.0 * rank)  # the second reads its settings from a slow disk
    tokens = prepared(accelerator, cache)
    model = torch.nn.Linear(8, 2)
    print(f"rank {rank} has tokens", flush=True)
    model = accelerator.prepare(model)
    for step in range(1000):
        time.sleep(0.2)
        loss = model(tokens[:8].float()).square().mean()
        accelerator.backward(loss)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
