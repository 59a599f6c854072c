"""The first process starts a server for roll-outs and asks until it is healthy; it has ended with an error."""

# mypy: ignore-errors
# No thread: after usual starters of inference servers.
import subprocess
import sys
import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist

SERVER = "import sys; sys.exit('no kernel image for this device')"
PORT = 29871


class Engine:
    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", SERVER], stderr=subprocess.DEVNULL)

    def wait_until_healthy(self) -> None:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(1.0)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step == 4 and rank == 0:
            Engine().wait_until_healthy()


if __name__ == "__main__":
    main()
