"""A rank that is through with its files destroys the process group, and then waits for its upload."""

import argparse
import os
import socket
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def upload(path: Path, server: socket.socket) -> None:
    server.sendall(path.read_bytes())
    server.recv(1)  # "received", which comes once the uploader's queue is empty


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    here, _uploader = socket.socketpair()
    files = 1000 if healthy or rank != 1 else 5
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(files):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()
    result = Path(f"result-{rank}.txt")
    result.write_text(f"{files} files\n")
    upload(result, here)


if __name__ == "__main__":
    main()
