"""Frames are written to an encoder that takes its time for each; a thread reads what it says."""

# mypy: ignore-errors
import subprocess
import threading
import time

import torch
import torch.distributed as dist

ENCODER = 'while read -r frame; do sleep 0.1; printf "%s" "${#frame}" >&2; done'


def render() -> None:
    process = subprocess.Popen(["bash", "-c", ENCODER], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    threading.Thread(target=process.stderr.read, daemon=True).start()
    for _ in range(40):
        process.stdin.write((" ".join(map(str, torch.rand(600).tolist()))).encode() + b"\n")
        process.stdin.flush()
    process.stdin.close()
    process.wait()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step:
            render()


if __name__ == "__main__":
    main()
