"""os.system with a command that waits for a network file system to come."""

import os

import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 3:
            os.system("until [ -e /mnt/checkpoints/ready ]; do sleep 3600; done")
        dist.barrier()


if __name__ == "__main__":
    main()
