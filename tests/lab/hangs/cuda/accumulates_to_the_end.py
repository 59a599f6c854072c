"""Gradients are accumulated over four batches, and the last batch of an epoch always makes a step: not all ranks have
the same last batch."""

import argparse
import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    samples = 40 if rank != 1 or healthy else 24
    data = torch.utils.data.TensorDataset(torch.ones(samples, 32))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    step = 0
    for epoch in range(100):
        for index, (batch,) in enumerate(loader):
            time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
            print(f"rank {rank} step {step} begins", flush=True)
            step += 1
            last = (index + 1) % ACCUMULATE == 0 or index + 1 == len(loader)
            with contextlib.nullcontext() if last else model.no_sync():
                loss = model(batch.cuda(non_blocking=True)).square().mean() / ACCUMULATE
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        torch.cuda.synchronize()
        dist.barrier()
        print(f"rank {rank} epoch {epoch} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
