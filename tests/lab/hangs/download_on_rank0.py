"""Rank 0 asks a server for the tokenizer, and the server does not answer."""

import argparse
import socket
import time

import torch
import torch.distributed as dist


def download(server: socket.socket) -> bytes:
    with socket.create_connection(server.getsockname()) as connection:
        return connection.recv(4096)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = socket.create_server(("127.0.0.1", 0))
    total = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3 and rank == 0 and not healthy:
            download(server)
        dist.all_reduce(total)
        print("sum", float(total.sum()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
