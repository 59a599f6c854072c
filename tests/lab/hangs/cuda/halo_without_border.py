"""A domain in slabs: from a step on its ends are walls, but one rank still takes it for a ring."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def exchange(rank: int, ring: bool, sent: torch.Tensor, received: list[torch.Tensor]) -> None:
    world, operations = dist.get_world_size(), []
    for side, shift in enumerate((-1, 1)):
        other = rank + shift
        if not ring and not 0 <= other < world:
            continue
        operations.append(dist.P2POp(dist.isend, sent, other % world))
        operations.append(dist.P2POp(dist.irecv, received[side], other % world))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    torch.cuda.current_stream().synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    sent = torch.ones(1 << 16, device="cuda")
    received = [torch.empty_like(sent) for _ in range(2)]
    walls_from = 1 << 30 if rank == 2 and not healthy else 4
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        exchange(rank, step < walls_from, sent, received)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
