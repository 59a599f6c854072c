"""The logits of a validation are gathered from all ranks; the last batch of one rank is smaller."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@torch.no_grad()
def validate(model: torch.nn.Module, samples: int) -> int:
    gathered = []
    for batch in torch.ones(samples, 32).split(8):
        logits = model(batch.cuda())
        everyone = torch.empty(dist.get_world_size() * len(logits), 4, device="cuda")
        dist.all_gather_into_tensor(everyone, logits)
        gathered.append(everyone.cpu())
    return len(torch.cat(gathered))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    samples = 24 if rank != 2 or healthy else 21
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        model(torch.ones(8, 32, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 3 == 2:
            print(f"rank {rank} validated {validate(model.module, samples)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
