"""Two processes evaluate together in a group of theirs, the third trains on alone for a while, and all meet again."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    judges = dist.new_group([1, 2])
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            if rank == 0:
                begin = time.monotonic()
                while time.monotonic() - begin < 4.0:
                    torch.randn(64, 64) @ torch.randn(64, 64)
            else:
                for _ in range(4):
                    time.sleep(0.4)
                    dist.all_reduce(torch.ones(4), group=judges)


if __name__ == "__main__":
    main()
