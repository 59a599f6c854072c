"""Logs go to a collector over TCP, which has stopped reading."""

import logging
import logging.handlers
import socket

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    log = logging.getLogger("metrics")
    log.setLevel(logging.INFO)
    collector = socket.create_server(("127.0.0.1", 0))  # accepts nobody, and reads nothing
    if rank == 1:
        log.addHandler(logging.handlers.SocketHandler("127.0.0.1", collector.getsockname()[1]))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step > 2:
            for layer in range(200):
                log.info("layer %d gradients %s", layer, "0.12345 " * 4000)


if __name__ == "__main__":
    main()
