"""A rank whose own loss has a spike goes back to the weights of rank 0, and asks for them by itself."""

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    weights, smooth = torch.ones(1 << 10, device="cuda"), 1.0
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = 9.0 if step == 4 and rank == 1 else 1.0 / (step + 1)
        if loss > 3 * smooth:
            print(f"rank {rank} spike, loss {loss:.2f}", flush=True)
            dist.broadcast(weights, src=0)
        smooth = 0.9 * smooth + 0.1 * loss
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
