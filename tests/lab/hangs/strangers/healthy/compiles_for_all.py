"""The first process builds an extension with a compiler now and then, and the others wait for it."""

import subprocess
import sys
import time

import torch
import torch.distributed as dist

COMPILE = "import time\nend = time.time() + 8\nwhile time.time() < end: sum(range(10000))"


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2 and rank == 0:
            subprocess.run([sys.executable, "-c", COMPILE], check=True)
        dist.barrier()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
