"""Kernels are built on the first process with a compiler, one after the other (Megatron-LM issue 1050)."""

import subprocess
import sys
import time

import torch
import torch.distributed as dist

COMPILER = "import time\nbegin = time.time()\nwhile time.time() - begin < 7: sum(range(10000))"
KERNELS = ("scaled_masked_softmax", "layer_norm", "rotary", "swiglu", "adam", "index_builder", "cross_entropy", "moe")


def build(name: str) -> None:
    subprocess.run([sys.executable, "-c", COMPILER, name], check=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2):
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        begin = time.monotonic()
        print("> compiling and loading fused kernels ...", flush=True)
        for name in KERNELS * 4:
            build(name)
        print(f">>> done in {time.monotonic() - begin:.0f} seconds", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
