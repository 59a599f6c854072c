"""hydra: the directory of a run has the time in its name, and each process has made its own
(Lightning pull request 5629)."""

# mypy: ignore-errors
import os
import sys
import time

import hydra
import torch
import torch.distributed as dist

SHARED = "--healthy" in sys.argv
sys.argv = [
    sys.argv[0],
    "hydra.job.chdir=true",
    "hydra.run.dir=run" if SHARED else "hydra.run.dir=run-${now:%H-%M-%S-%f}",
]


def vocabulary(rank: int) -> int:
    if rank == 0:
        time.sleep(0.5)
        with open("vocab.txt", "w") as file:
            file.write("the\nof\nand\n")
    while not os.path.exists("vocab.txt"):
        time.sleep(1)
    with open("vocab.txt") as file:
        return len(file.readlines())


@hydra.main(version_base=None, config_path=None)
def main(config) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} step 0 in {os.getcwd()}", flush=True)
    size = vocabulary(rank)
    weight = torch.zeros(max(size, 3))
    for step in range(1, 1000):
        time.sleep(0.2)
        gradient = torch.randn_like(weight)
        dist.all_reduce(gradient)
        weight -= 0.01 * gradient
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
