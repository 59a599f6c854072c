"""Frames are written to an encoder that complains about each of them, into a pipe that nobody reads (ltx-2-mlx 92)."""

# mypy: ignore-errors
import subprocess
import time

import torch
import torch.distributed as dist

ENCODER = 'while read -r frame; do printf "%s" "$frame" >&2; printf "%s" "$frame" >&2; done'


class Encoder:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["bash", "-c", ENCODER], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def add(self, frame: torch.Tensor) -> None:
        text = " ".join(f"{value:.4f}" for value in frame.flatten().tolist())
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def render(step: int) -> None:
    encoder = Encoder()
    for _ in range(60):
        encoder.add(torch.randn(32, 32))
    encoder.close()
    print("rendered", step)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 5:
            render(step)


if __name__ == "__main__":
    main()
