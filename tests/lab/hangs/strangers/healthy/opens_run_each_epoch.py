"""With each epoch the first process opens a new run at its tracker, which takes seven seconds (rsl_rl issue 150)."""

# mypy: ignore-errors
import subprocess
import sys
import time

import torch
import torch.distributed as dist

SERVICE = "import time; time.sleep(7); print('ready', flush=True); time.sleep(3)"


class Run:
    def __init__(self) -> None:
        self.service = subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True)
        self.service.stdout.readline()

    def finish(self) -> None:
        self.service.wait()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    step = 0
    for _epoch in range(1000):
        run = Run() if rank == 0 and step else None
        dist.barrier()
        for _ in range(3):
            time.sleep(0.3)
            dist.all_reduce(torch.ones(8))
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        if run:
            run.finish()


if __name__ == "__main__":
    main()
