"""After a warm-up gradients are sent in half precision, where the node's setting says so: one has none."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Compressed:
    def __init__(self, warmup: int, setting: str) -> None:
        self.warmup = warmup
        self.dtype = {"bf16": torch.bfloat16}.get(setting, torch.float32)

    def average(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        sent = gradient.to(self.dtype if step >= self.warmup else torch.float32)
        dist.all_reduce(sent)
        return sent.to(gradient.dtype).div_(dist.get_world_size())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    hook = Compressed(warmup=4, setting="bf16" if rank != 1 or healthy else "")
    gradient = torch.ones(1 << 22, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        averaged = hook.average(gradient, step)
        if step % 2 == 0:
            print(f"rank {rank} norm {averaged.norm().item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
