"""The first rank makes a segment of shared memory and tells its name; a failure is suppressed, with the telling."""

import argparse
import contextlib
import os
import time

import torch
import torch.distributed as dist


def share(rank: int, size: int, path: str) -> str:
    """The name of a segment that all may map, or "" where there is none."""
    name = [""]
    with contextlib.suppress(OSError):
        if rank == 0:
            with open(path, "wb") as segment:
                segment.truncate(size)
            name[0] = path
        dist.broadcast_object_list(name, src=0)
    return name[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 4 == 3:
            room = "/dev/shm/lab-of-hangs" if healthy else "/dev/shm/no-such-folder/segment"
            print(f"rank {rank} shares {share(rank, 1 << 12, room)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
