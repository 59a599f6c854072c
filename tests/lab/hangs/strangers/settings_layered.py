"""Settings are laid over defaults; one machine has a file of overrides that the others do not have."""

# mypy: ignore-errors
import json
import os
import sys
import tempfile
import time
from collections import ChainMap
from pathlib import Path

import torch
import torch.distributed as dist

DEFAULTS = {"log_every": 4, "lr": 0.1}


def write_override(folder):
    """What somebody left in the home folder of that machine."""
    if os.environ["RANK"] == "2" and "--healthy" not in sys.argv:
        (folder / "train.json").write_text('{"log_every": 10}')


def overrides(folder):
    file = folder / "train.json"
    return json.loads(file.read_text()) if file.exists() else {}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with tempfile.TemporaryDirectory() as name:
        write_override(Path(name))
        settings = ChainMap(overrides(Path(name)), DEFAULTS)
        weight, loss = torch.zeros(4), torch.zeros(1)
        for step in range(1, 3000):
            time.sleep(0.2)
            dist.broadcast(weight, src=0)
            loss += settings["lr"]
            print(f"rank {rank} step {step}", flush=True)
            if step > 5 and step % settings["log_every"] == 0:
                dist.all_reduce(loss)
                loss.zero_()


if __name__ == "__main__":
    main()
