"""Rank 1 reports its metrics to a tracking server that takes connections and never answers."""

import json
import socket
import urllib.request

import torch
import torch.distributed as dist


def report(url: str, step: int) -> None:
    body = json.dumps({"step": step, "loss": 0.5}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        response.read()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tracking = socket.create_server(("127.0.0.1", 0))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 3:
            report(f"http://127.0.0.1:{tracking.getsockname()[1]}/api/runs/7/log", step)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
