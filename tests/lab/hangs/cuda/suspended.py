"""A rank is suspended in the middle of training, as by Ctrl-Z or a scheduler that takes its cores."""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(4, 64, device="cuda")).square().mean()
        loss.backward()
        if step == 4 and rank == 0 and not healthy:
            os.kill(os.getpid(), signal.SIGSTOP)
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            print(f"rank {rank} loss {loss.cpu()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
