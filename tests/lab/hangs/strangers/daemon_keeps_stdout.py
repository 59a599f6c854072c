"""A script that starts a server in the background has ended long ago; the server has its standard output, and who reads
that waits for its end."""

# mypy: ignore-errors
# No thread of one job: bpo-37424 and its relatives (subprocess.run with capture_output and a grandchild).
import subprocess
import sys
import time

import torch
import torch.distributed as dist

LOG = "/dev/null" if "--healthy" in sys.argv else "/dev/stdout"
START = f"""
echo starting the metrics server
sleep 86400 > {LOG} 2>&1 &
echo started as $!
"""


def start_metrics_server() -> str:
    done = subprocess.run(["bash", "-c", START], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.zeros(3)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        if step == 4 and rank == 0:
            print(start_metrics_server(), flush=True)
        gradient = torch.randn(3)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient


if __name__ == "__main__":
    main()
