"""A TLS connection to a port where something else listens, and says nothing."""

import socket
import ssl

import torch
import torch.distributed as dist


def push(port: int) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    with socket.create_connection(("127.0.0.1", port)) as plain:
        with context.wrap_socket(plain) as connection:
            connection.sendall(b"metrics")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = socket.create_server(("127.0.0.1", 0))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if step == 2 and rank == 1:
            push(server.getsockname()[1])
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
