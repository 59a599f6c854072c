"""The best step is told through the store; one rank asks for it under a name that nobody has set."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    store = dist.distributed_c10d._get_default_store()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step % 4 == 3:
            if rank == 0:
                store.set(f"best/{step}", str(step))
            name = f"best_{step}" if rank == 1 and step == 7 and not healthy else f"best/{step}"
            print(f"rank {rank} best is {int(store.get(name))}", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
