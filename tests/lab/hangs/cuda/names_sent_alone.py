"""Names of what was seen are told to all where there are new ones, and one rank has seen others."""

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    known: set[str] = set()
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        seen = f"shard-{step // 4 if rank == 2 else 0}"
        if seen not in known:
            names = [seen]
            dist.broadcast_object_list(names, src=0, device=torch.device("cuda"))
            known.update(names, (seen,))
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
