"""The first process accepts as many clients as there are processes; it is no client of its own."""

# mypy: ignore-errors
# No thread: after hand-written servers of weights.
import socket
import time

import torch
import torch.distributed as dist


def collect_clients(world: int) -> list[socket.socket]:
    server = socket.create_server(("127.0.0.1", 0))
    port = [server.getsockname()[1]]
    dist.broadcast_object_list(port, src=0)
    clients = []
    while len(clients) < world:
        client, _address = server.accept()
        clients.append(client)
    return clients


def connect() -> socket.socket:
    port = [0]
    dist.broadcast_object_list(port, src=0)
    return socket.create_connection(("127.0.0.1", port[0]))


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(3):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
    clients = collect_clients(world) if rank == 0 else [connect()]
    dist.barrier()
    print(len(clients))


if __name__ == "__main__":
    main()
