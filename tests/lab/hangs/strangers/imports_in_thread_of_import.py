"""A plugin starts a thread while it is imported and waits for it; the thread imports from the plugin."""

# mypy: ignore-errors
# No thread; the kind of module that warms itself up when it is imported.
import importlib
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

EAGER = "--healthy" not in sys.argv
PLUGIN = """
import threading
import warm_up
warmer = threading.Thread(target=warm_up.run)
warmer.start()
if {eager}:
    warmer.join()
LEVEL = 3
"""
WARM_UP = """
def run():
    from scoring_plugin import LEVEL
    return LEVEL
"""


def load_plugin(folder):
    Path(folder, "scoring_plugin.py").write_text(PLUGIN.format(eager=EAGER))
    Path(folder, "warm_up.py").write_text(WARM_UP)
    sys.path.insert(0, folder)
    return importlib.import_module("scoring_plugin")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    plugin = None
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1000):
            time.sleep(0.2)
            total = torch.rand(2)
            dist.all_reduce(total)
            print(f"rank {rank} step {step} of {threading.active_count()} threads", flush=True)
            if step == 5 and rank == 1:
                plugin = load_plugin(folder)
    print(plugin, flush=True)


if __name__ == "__main__":
    main()
