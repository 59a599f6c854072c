"""Rank 0 writes a checkpoint into a compressor that takes a few kilobytes a second; the others wait in a barrier."""

import argparse
import subprocess
import sys
import time

import torch
import torch.distributed as dist

COMPRESSOR = "import sys, time\nwhile sys.stdin.buffer.read({size}): time.sleep({pause})"


def save(healthy: bool) -> None:
    weights = {f"layer{number}": torch.randn(64, 1024) for number in range(16)}
    code = COMPRESSOR.format(size=1 << 20 if healthy else 1 << 14, pause=0.2 if healthy else 1.0)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as compressor:
        assert compressor.stdin is not None
        torch.save(weights, compressor.stdin)
        compressor.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3 if healthy else 0.05)
        dist.all_reduce(torch.ones(64))
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            if rank == 0:
                save(healthy)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
