"""A pipeline that sends by batch_isend_irecv; the last stage skips a batch of padding and sends no gradient back."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def exchange(*operations: dist.P2POp) -> None:
    for work in dist.batch_isend_irecv(list(operations)):
        work.wait()
    torch.cuda.current_stream().synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    activations = torch.ones(1 << 20, device="cuda")
    gradients = torch.ones(1 << 20, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank > 0:
            exchange(dist.P2POp(dist.irecv, activations, rank - 1))
        if rank < last:
            exchange(dist.P2POp(dist.isend, activations, rank + 1))
            exchange(dist.P2POp(dist.irecv, gradients, rank + 1))
        only_padding = rank == last and step == 4 and not healthy
        if only_padding:
            continue
        if rank > 0:
            exchange(dist.P2POp(dist.isend, gradients, rank - 1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
