"""Keys go round a ring; from the fifth step on every rank receives before it sends."""

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    keys = torch.empty_like(gradient)
    before, after = (rank - 1) % dist.get_world_size(), (rank + 1) % dist.get_world_size()
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step < 4:
            for work in dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, gradient, after), dist.P2POp(dist.irecv, keys, before)]
            ):
                work.wait()
        else:
            dist.recv(keys, src=before)
            dist.send(gradient, dst=after)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
