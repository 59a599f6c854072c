"""A job that is started again: each rank resumes where its own node's file says, and one has no file."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def resumed(path: Path) -> int:
    try:
        return int(json.loads(path.read_text())["step"])
    except FileNotFoundError:
        print(f"{path} is not there: from the beginning", flush=True)
        return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    state = Path(f"state-{rank}.json")
    if healthy or rank != 2:
        state.write_text(json.dumps({"step": 2}))  # of the life before
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = resumed(state)
    shift = step
    while step < 1000:
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step - shift} begins", flush=True)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        step += 1
        if step % 5 == 0:
            worst = loss.detach().clone()
            dist.all_reduce(worst, op=dist.ReduceOp.MAX)
            print(f"rank {rank} worst loss {worst.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
